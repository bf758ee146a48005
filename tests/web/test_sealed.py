"""A server whose seal key is another one says so to whoever asks, and to those who look after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.core.diagnosis import Received
from payd.core.roles import Role
from payd.core.signature import sign
from payd.store.audit import Act, list_audit
from payd.store.seal import KEY_BYTES, Seal
from payd.store.second_factors import app_subject, set_app
from payd.web.attention import house_matters
from payd.web.commands import run_command
from payd.web.explain import explain
from payd.web.sealed import closed_words
from tests.shop import Shop
from tests.visitor import sign_in
from tests.web.hooked import ENDPOINT, Hooked, open_hooked

ANOTHER = Seal(bytes([1] * KEY_BYTES))
SECRETS = "the seal key does not open signing secrets of webhook endpoints; `payd doctor` says what to do"


def give_another_key(shop: Shop) -> None:
    """As after a restore without the seal key, where the start made one."""
    shop.realm.seal = shop.realm.deliveries._attempts._poster._seal = ANOTHER


async def refused(hooked: Hooked, path: str, body: object = None) -> str:
    """What a request is answered that needs what was sealed."""
    found = await hooked.shop.call("POST", path, body)
    assert (found.status, found.code) == (500, "internal_error")
    assert "retry-after" not in dict(found.headers)
    return str(found.body["message"])


async def test_who_needs_what_was_sealed_is_told_that_no_retry_helps(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        made = await hooked.register()
        give_another_key(hooked.shop)
        told = (
            f"What was sealed for {made['id']} does not open with this server's seal key. No retry helps:"
            " whoever runs the server has to put the right key back; `payd doctor` says more."
        )
        assert await refused(hooked, f"{ENDPOINT}/reveal") == told
        assert await refused(hooked, f"{ENDPOINT}/test", {"type": "payment.created"}) == told
        page = await (await sign_in(hooked.shop, Role.DEVELOPER)).post("/d/test/webhooks/reveal")
        assert "No retry helps" in page.text


async def test_a_secret_that_was_shown_to_nobody_is_not_in_the_audit(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        give_another_key(hooked.shop)
        await refused(hooked, f"{ENDPOINT}/reveal")
        assert "endpoint.reveal" not in [one.act for one in acts(hooked)]
        await hooked.shop.call("POST", f"{ENDPOINT}/rotate")
        await hooked.shop.call("POST", f"{ENDPOINT}/reveal")
        assert acts(hooked)[0].act == "endpoint.reveal"


def acts(hooked: Hooked) -> list[Act]:
    """What was done, newest first."""
    return hooked.shop.realm.db.point(list_audit, hooked.shop.account_id, None, 20)


async def test_a_new_secret_mends_it(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        give_another_key(hooked.shop)
        assert closed_words(hooked.shop.house, hooked.shop.realm.db) == SECRETS
        rotated = await hooked.shop.call("POST", f"{ENDPOINT}/rotate")
        revealed = await hooked.shop.call("POST", f"{ENDPOINT}/reveal")
        assert revealed.body["secret"] == rotated.body["secret"]
        assert closed_words(hooked.shop.house, hooked.shop.realm.db) is None


async def test_a_new_secret_of_one_account_mends_no_other(tmp_path: Path) -> None:
    async with open_hooked(tmp_path) as hooked:
        shop = hooked.shop
        await hooked.register()
        await shop.call("PUT", ENDPOINT, {"url": "https://other.test/"}, key=shop.other_key)
        give_another_key(shop)
        for key, said in ((shop.other_key, SECRETS), (shop.key, None)):
            assert (await shop.call("POST", f"{ENDPOINT}/rotate", key=key)).status == 200
            assert closed_words(shop.house, shop.realm.db) == said


async def test_once_it_is_rotated_listening_and_looking_at_a_delivery_work_without_the_old_one(
    tmp_path: Path,
) -> None:
    async with open_hooked(tmp_path) as hooked:
        await hooked.register()
        give_another_key(hooked.shop)
        rotated = (await hooked.shop.call("POST", f"{ENDPOINT}/rotate")).body["secret"]
        args = b'{"account":"%b"}' % hooked.shop.account_id.encode()
        assert (await run_command(hooked.shop.house, "listen.secret", args))["secrets"] == [rotated]
        received = Received("msg_1", "1", sign([rotated], "msg_1", 1, b"{}"), b"{}")
        said = await explain(hooked.shop.realm, hooked.shop.account_id, received)
        assert (said.match, said.has_endpoint) == ("current", True)


async def test_those_who_look_after_the_server_hear_of_it_before_a_webhook_is_due(shop: Shop) -> None:
    await shop.call("PUT", ENDPOINT, {"url": "https://a.test/"})
    user_id = (await sign_in(shop)).user_id
    await shop.house.office.write(set_app, user_id, shop.realm.seal.seal(b"app", app_subject(user_id)), 0)
    assert (await shop.call("GET", "/readyz", key=None)).body == {"status": "ok"}

    give_another_key(shop)
    ready = await shop.call("GET", "/readyz", key=None)
    apps = SECRETS.replace("signing secrets of webhook endpoints", "authenticator apps of people")
    assert (ready.status, ready.body["warnings"]) == (200, [f"office: {apps}", f"test: {SECRETS}"])
    matters = house_matters(shop.house, shop.realm)
    assert [(one.level, one.subject, one.words) for one in matters if one.topic == "store"] == [
        ("error", "office", apps),
        ("error", "test", SECRETS),
    ]


async def test_a_store_that_cannot_be_read_says_nothing_of_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.call("PUT", ENDPOINT, {"url": "https://a.test/"})
    give_another_key(shop)
    with monkeypatch.context() as lost:
        lost.setattr(shop.realm.db._connections, "point", None)
        assert closed_words(shop.house, shop.realm.db) is None
