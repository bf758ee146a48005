"""`payd restore` says what came back, what is lost, and what to do next."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from payd.store import restore as module
from payd.store.lock import hold_data_dir
from tests.terminal import Terminal


def test_what_was_backed_up_serves_another_folder(begun: Terminal) -> None:
    key = begun.json("key", "list")[0]["id"]
    begun("webhook", "set", "--url", "http://127.0.0.1:9/hook")
    begun("backup", "one")

    said = begun("restore", "one", "--data-dir", "new").output

    assert "signing secrets of webhook endpoints: 1, in test.db" in said
    assert "copy it to new/seal.key" in said
    assert "payd serve --data-dir new" in said
    assert begun.json("key", "list", "--data-dir", "new")[0]["id"] == key


def test_with_the_keys_nothing_is_lost(begun: Terminal) -> None:
    (begun.folder / "data" / "relayer.json").write_text('{"crypto": {}}')
    begun("backup", "one", "--with-keys")
    done = begun.json("restore", "one", "--data-dir", "new")
    assert (done["lost"], done["replaced"], done["keystores"]) == ([], None, ["relayer.json"])
    assert "new2/relayer.json; [relayer]" in begun("restore", "one", "--data-dir", "new2").output


def test_nothing_is_overwritten_unless_that_is_said(begun: Terminal) -> None:
    begun("backup", "one")
    assert "--overwrite" in begun.error("restore", "one")
    assert "data/snapshots/" in begun("restore", "one", "--overwrite").output


def test_who_comes_meanwhile_is_told_to_come_again(begun: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    begun("backup", "one")

    def meanwhile(_source: Path, directory: Path, **_: object) -> None:
        with hold_data_dir(directory):
            raise AssertionError("two at once")

    monkeypatch.setattr("payd.cli.restore.put_back", meanwhile)
    assert "held by a restore" in begun.error("restore", "one", "--overwrite", code=3)


def test_that_a_revoked_key_opens_again_is_said(begun: Terminal) -> None:
    key = begun.json("key", "list")[0]["id"]
    begun("backup", "one")
    begun("key", "revoke", key)
    said = begun("restore", "one", "--overwrite").output
    assert begun.json("key", "list")[0]["revokedAt"] is None
    assert "Keys and people that were taken away since are back" in said


def test_a_change_of_a_destination_that_waits_again_is_said_with_the_way_out(begun: Terminal) -> None:
    data = begun.folder / "data"
    shutil.copy(data / "test.db", data / "live.db")
    with closing(sqlite3.connect(data / "live.db")) as tx, tx:
        tx.execute(
            "INSERT INTO settlement_changes VALUES"
            " ('crypto_1', 'mrch_1', 'acct_1', 'eip155:1:0x1', 'key_1', 0, 0)"
        )
    begun("backup", "one")
    said = begun("restore", "one", "--data-dir", "new").output
    assert "mrch_1 crypto_1: to eip155:1:0x1 at 1970-01-01T00:00:00.000Z" in said
    assert "payd merchant cancel-change MERCHANT DESTINATION --mode live --data-dir new" in said


def test_what_was_replaced_is_restored_from_the_snapshots(begun: Terminal) -> None:
    begun("backup", "one")
    key = begun.json("key", "create")["id"]
    replaced = begun.json("restore", "one", "--overwrite")["replaced"]
    assert key not in {each["id"] for each in begun.json("key", "list")}
    said = begun("restore", f"data/{replaced}", "--overwrite").output
    assert key in {each["id"] for each in begun.json("key", "list")}
    assert "by hand" not in said


def test_what_was_damaged_can_be_put_back_by_hand_only_and_that_is_said(begun: Terminal) -> None:
    begun("backup", "one")
    (begun.folder / "data" / "test.db").write_bytes(b"no database at all")
    said = begun("restore", "one", "--overwrite").output
    assert "test.db cannot be read" in said
    assert "copy the files of data/snapshots/" in said


def test_a_folder_that_is_no_backup_is_refused(begun: Terminal) -> None:
    (begun.folder / "empty").mkdir()
    assert "no whole backup" in begun.error("restore", "empty", "--overwrite")
    begun("restore", "nowhere", code=2)


def test_beside_a_server_it_is_refused_with_code_3(begun: Terminal) -> None:
    begun("backup", "one")
    with hold_data_dir(begun.folder / "data"):
        assert "stop it" in begun.error("restore", "one", "--overwrite", code=3)


def test_told_to_end_it_leaves_no_copies(begun: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    begun("backup", "backup-1")

    def end(_: sqlite3.Connection) -> list[str]:
        signal.raise_signal(signal.SIGTERM)
        return []

    monkeypatch.setattr(module, "broken_places", end)
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # where nobody hears it, it ends the tests
    try:
        begun("restore", "backup-1", "--data-dir", "new", code=130)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [each.name for each in (begun.folder / "new").iterdir()] == ["lock"]
