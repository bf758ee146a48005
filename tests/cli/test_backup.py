"""`payd backup` without a server, and beside a silent one; `crash/test_backup.py` has one that serves."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from payd.cli.backup import _ask
from payd.config import Config
from payd.store.lock import hold_data_dir
from payd.web.admin import Reply
from tests.cli.test_act import server
from tests.terminal import Terminal


def test_without_a_server_it_is_made_here(begun: Terminal) -> None:
    made = begun.json("backup", "one")
    assert made["dest"] == str(begun.folder / "one")
    assert {each["name"] for each in made["files"]} == {"office.db", "test.db", "payd.toml"}
    assert "keep data/seal.key" in begun("backup", "two").output
    assert "seal.key" in {each["name"] for each in begun.json("backup", "three", "--with-keys")["files"]}


def test_what_is_not_copied_as_it_is_behind_a_link_is_said(begun: Terminal) -> None:
    assert begun.json("backup", "one")["leftOut"] == []
    assert "Left out" not in begun("backup", "two").output
    (begun.folder / "data" / "mine").mkdir()
    for link in ("old", "mine/old", "snapshots"):
        (begun.folder / "data" / link).symlink_to(begun.folder)

    assert begun.json("backup", "three")["leftOut"] == ["mine/old", "old"]
    assert "mine/old, old: a link to a folder is not followed" in begun("backup", "four").output


def test_the_way_back_is_said_for_the_same_configuration_and_quoted(payd: Terminal) -> None:
    (payd.folder / "my payd.toml").write_text("data_dir = 'my data'")
    payd("account", "create", "main", "--config", "my payd.toml")
    shown = payd("backup", "my backup", "--config", "my payd.toml").output
    dest = payd.folder / "my backup"
    assert f"payd restore '{dest}' --data-dir NEW_DIR --config 'my payd.toml'\n" in shown
    assert "keep my data/seal.key in another safe place" in shown


def test_a_place_that_is_taken_is_refused_with_code_1(begun: Terminal) -> None:
    begun("backup", "one")
    assert "is there already" in begun.error("backup", "one")


def test_where_there_is_no_data_it_says_so(payd: Terminal) -> None:
    assert "No payd data" in payd.error("backup", "one")
    assert not (payd.folder / "data").exists()
    (payd.folder / "data").mkdir()
    assert "No payd data" in payd.error("backup", "one")
    assert list((payd.folder / "data").iterdir()) == []


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (b'{"error":{"code":"x","message":"There is no room."}}\n', "There is no room."),
        (b'{"result":{}}\n', "only the server sees"),
    ],
)
def test_what_the_server_did_not_make_is_no_backup(begun: Terminal, reply: bytes, said: str) -> None:
    with server(begun.folder / "data", reply):
        assert said in begun.error("backup", "one")


async def test_who_leaves_has_the_server_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def call(_path: Path, command: str, _args: object, **_: object) -> Reply:
        asked.append(command)
        if command == "backup.make":
            await trio.sleep_forever()
        return Reply()

    monkeypatch.setattr("payd.cli.backup.call_admin", call)
    with trio.move_on_after(1):
        await _ask(Config(), Path("one"), False, lambda *_: None)
    assert (asked[0], asked[-1]) == ("backup.make", "backup.stop")


def test_where_the_office_is_gone_it_does_not_say_that_nothing_is_there(begun: Terminal) -> None:
    (begun.folder / "data" / "office.db").unlink()
    for command in (("backup", "one"), ("events", "tail")):
        said = begun.error(*command)
        assert "office.db is missing or empty, and test.db is there" in said
        assert "No payd data" not in said


def test_beside_a_process_that_does_not_answer_the_code_is_3(begun: Terminal) -> None:
    with hold_data_dir(begun.folder / "data"):
        assert "does not answer" in begun.error("backup", "one", code=3)


def test_what_comes_while_one_is_made_without_a_server_is_told_to_come_again(begun: Terminal) -> None:
    with hold_data_dir(begun.folder / "data", "backup"):
        for command in (["serve"], ["backup", "one"], ["key", "list"], ["restore", "data"], ["migrate"]):
            said = begun.error(*command, code=3)
            assert "held by a backup" in said
            assert "admin socket" not in said


def test_a_link_in_the_place_of_what_is_not_finished_yet_is_refused_with_code_1(begun: Terminal) -> None:
    (begun.folder / ".payd-backup.partial").symlink_to("data")
    assert "move it away" in begun.error("backup", "one")


def test_a_log_that_its_database_left_behind_is_not_thrown_away(begun: Terminal) -> None:
    (begun.folder / "data" / "test.db").rename(begun.folder / "test.db")
    (begun.folder / "data" / "test.db-wal").write_bytes(b"what was written last")
    for command in (("backup", "one"), ("account", "list"), ("serve",), ("migrate",)):
        assert "test.db is missing or empty, and test.db-wal is there" in begun.error(*command)
    assert (begun.folder / "data" / "test.db-wal").read_bytes() == b"what was written last"
