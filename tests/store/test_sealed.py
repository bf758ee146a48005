"""What a key does not open is counted, and the house's own secrets are not among it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from payd.store.migrate import Schema
from payd.store.seal import Seal
from payd.store.sealed import SECRETS, closed, closed_kinds
from tests.stored.fill import SEAL_KEY, stored, unpack

RIGHT, WRONG = Seal(bytes.fromhex(SEAL_KEY)), Seal(bytes(32))


@pytest.mark.parametrize("versions", stored(), ids=str)
def test_the_right_key_opens_all_and_another_none(tmp_path: Path, versions: tuple[int, int]) -> None:
    unpack(stored()[versions], tmp_path)
    counts = []
    files: tuple[tuple[str, Schema], ...] = (("office.db", "office"), ("test.db", "realm"))
    for name, schema in files:
        with closing(sqlite3.connect(tmp_path / name)) as tx:
            assert list(closed(tx, schema, RIGHT)) == []
            assert list(closed(tx, schema, None)) == list(closed(tx, schema, WRONG))
            counts += list(closed(tx, schema, None))
    # Versions before those that brought them have no such thing.
    words = {"signing secrets of webhook endpoints": 1, "answers of buyers": 7}
    wanted = {text for text, since in words.items() if versions[1] >= since}
    if versions[0] >= 2:
        wanted.add("authenticator apps of people")
    assert {text for text, _ in counts} == wanted


def test_those_that_do_not_open_are_counted(tmp_path: Path) -> None:
    unpack(stored()[max(stored())], tmp_path)
    with closing(sqlite3.connect(tmp_path / "test.db")) as tx:
        for place, seal in enumerate((WRONG, RIGHT, WRONG, RIGHT)):
            values = (f"ep_{place}", seal.seal(b"whsec", f"ep_{place}"))
            tx.execute(
                "INSERT INTO endpoint_secrets (endpoint_id, sealed, created_at_ms) VALUES (?, ?, 0)", values
            )
        assert list(closed(tx, "realm", RIGHT)) == [(SECRETS, 2)]
        assert closed_kinds(tx, "realm", RIGHT) == [SECRETS]
        tx.execute("UPDATE endpoint_secrets SET expires_at_ms = 1 WHERE endpoint_id IN ('ep_0', 'ep_2')")
        assert closed_kinds(tx, "realm", RIGHT) == []


def test_headers_count_too(tmp_path: Path) -> None:
    unpack(stored()[max(stored())], tmp_path)
    with closing(sqlite3.connect(tmp_path / "test.db")) as tx:
        tx.execute("UPDATE endpoints SET headers = x'01' WHERE id = 'ep_gone'")
        assert ("added headers of webhooks", 1) in list(closed(tx, "realm", RIGHT))
