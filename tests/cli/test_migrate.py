"""`payd migrate` brings an old data directory up to date, tries it first, and refuses in words."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing

import pytest

from payd.store import upgrade
from payd.store.lock import hold_data_dir
from tests.stored.fill import stored, unpack
from tests.terminal import Terminal


def test_it_is_tried_then_done_then_there_is_nothing_to_do(payd: Terminal) -> None:
    data = payd.folder / "data"
    unpack(stored()[1, 1], data)
    newest = max(stored())

    assert "nothing was changed" in payd("migrate", "--dry-run").output
    tried = payd.json("migrate", "--dry-run")
    assert [(one["version"], one["newest"]) for one in tried["databases"]] == [(1, n) for n in newest]
    with hold_data_dir(data):
        assert payd.json("migrate", "--dry-run") == tried, "also beside a server"
        assert "stop it" in payd.error("migrate", code=3)
    done = payd.json("migrate")
    assert (data / done["snapshot"] / "manifest.json").exists()
    assert "Nothing to do" in payd("migrate").output
    assert [one["version"] for one in payd.json("migrate")["databases"]] == list(newest)


def test_a_person_hears_where_the_old_ones_are(payd: Terminal) -> None:
    unpack(stored()[1, 1], payd.folder / "data")
    assert "What was there is in snapshots/" in payd("migrate").output


def test_a_newer_database_is_refused_in_words_also_at_a_start(payd: Terminal) -> None:
    unpack(stored()[1, 1], payd.folder / "data")
    with closing(sqlite3.connect(payd.folder / "data" / "office.db")) as tx:
        tx.execute("PRAGMA user_version = 999")
    for command in (("migrate",), ("migrate", "--dry-run"), ("serve", "--listen", "127.0.0.1:0")):
        assert "office.db is at schema version 999" in payd.error(*command)


def test_where_there_is_no_data_it_says_so(payd: Terminal) -> None:
    assert "No payd data" in payd.error("migrate")
    (payd.folder / "data").mkdir()
    assert "No payd data" in payd.error("migrate")
    assert list((payd.folder / "data").iterdir()) == []


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_told_to_end_it_leaves_no_copies(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    data = payd.folder / "data"
    unpack(stored()[1, 1], data)

    def end(_: sqlite3.Connection) -> list[str]:
        signal.raise_signal(signal.SIGTERM)
        return []

    monkeypatch.setattr(upgrade, "broken_places", end)
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # where nobody hears it, it ends the tests
    try:
        payd("migrate", *more, code=130)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert {each.name for each in data.iterdir()} - {"lock"} == {"office.db", "test.db", "seal.key"}
