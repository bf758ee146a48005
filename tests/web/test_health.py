"""Whether the process lives and can work, and its versions."""

from __future__ import annotations

import pytest

from payd.core.version import VERSIONS
from tests.shop import Shop


async def test_it_lives_and_is_ready_without_a_key(shop: Shop) -> None:
    for path in ("/livez", "/readyz"):
        found = await shop.call("GET", path, key=None)
        assert (found.status, found.body) == (200, {"status": "ok"})


async def test_a_store_that_cannot_write_makes_it_unready_and_leaves_it_alive(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ailing = shop.realm.db
    kind = type(ailing)
    monkeypatch.setattr(kind, "healthy", property(lambda db: db is not ailing))
    monkeypatch.setattr(kind, "failure", property(lambda db: "disk full" if db is ailing else None))
    found = await shop.call("GET", "/readyz", key=None)
    assert (found.status, found.body) == (503, {"status": "failing", "problems": ["test: disk full"]})
    assert (await shop.call("GET", "/livez", key=None)).status == 200


async def test_it_is_not_ready_while_it_stops(shop: Shop) -> None:
    shop.house.release_polls()
    found = await shop.call("GET", "/readyz", key=None)
    assert (found.status, found.body["problems"]) == (503, ["the server is stopping"])


async def test_the_versions_are_those_of_the_table(shop: Shop) -> None:
    found = await shop.call("GET", "/versions", key=None)
    assert found.body == {"stable": ["2026-02-18"], "preview": ["2026-02-19.preview"]}
    assert {version for group in found.body.values() for version in group} == set(VERSIONS)
