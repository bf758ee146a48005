"""A command goes to the running server; without one the store is opened here; held by another, it says so."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from payd.cli.act import ask
from payd.cli.failure import Refused, Unreachable
from payd.config import load
from payd.store.copying import OfficeMissing
from payd.store.lock import hold_data_dir
from payd.web import commands
from payd.web.admin import SOCKET_NAME
from payd.web.house import House
from tests.live.street import configuration, write_keystore
from tests.terminal import Terminal


@contextmanager
def server(folder: Path, reply: bytes) -> Iterator[list[bytes]]:
    """Something that answers on the admin socket, on another thread."""
    asked: list[bytes] = []
    ready, scope = threading.Event(), trio.CancelScope()
    tokens: list[trio.lowlevel.TrioToken] = []

    async def converse(stream: trio.SocketStream) -> None:
        asked.append(await stream.receive_some())
        await stream.send_all(reply)
        await stream.aclose()

    async def main() -> None:
        tokens.append(trio.lowlevel.current_trio_token())
        with scope, trio.socket.socket(trio.socket.AF_UNIX) as listening:
            await listening.bind(str(folder / SOCKET_NAME))
            listening.listen()
            ready.set()
            await trio.serve_listeners(converse, [trio.SocketListener(listening)])

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    assert ready.wait(5)
    try:
        yield asked
    finally:
        tokens[0].run_sync_soon(scope.cancel)
        thread.join()


@pytest.fixture
def folder(begun: Terminal, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path("data")


def do(command: str, **args: Any) -> Any:
    return ask(load(), command, args)


def test_the_running_server_does_it(folder: Path) -> None:
    with hold_data_dir(folder), server(folder, b'{"result":["from the server"]}\n') as asked:
        assert do("key.list", mode="test") == ["from the server"]
    assert asked == [b'{"command":"key.list","args":{"mode":"test"}}\n']


def test_its_refusal_is_told_with_the_fields_that_are_wrong(folder: Path) -> None:
    reply = b'{"error":{"code":"x","message":"No.","issues":[{"field":"a","message":"Too long."}]}}\n'
    with server(folder, reply), pytest.raises(Refused, match="No\\.\n  a: Too long\\."):
        do("key.list")


def test_an_answer_that_never_comes_is_not_tried_again_here(folder: Path) -> None:
    with server(folder, b""), pytest.raises(Unreachable, match="may have done it"):
        do("key.create")
    assert len(do("key.list")) == 1


def test_without_a_server_the_store_is_opened_here(folder: Path) -> None:
    assert [key["name"] for key in do("key.list")] == ["first key"]
    with hold_data_dir(folder):
        pass  # and let go again


def test_without_a_server_nothing_is_told_before_the_disk_has_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def look(house: House, command: str, raw: bytes) -> Any:
        databases = [house.office, house.realms["test"].db]
        return [await db.write(synchronous) for db in databases]

    def synchronous(tx: sqlite3.Connection) -> int:
        return int(tx.execute("PRAGMA synchronous").fetchone()[0])

    monkeypatch.setattr(commands, "run_command", look)
    full = 2
    assert do("key.list") == [full, full]


def test_where_the_office_alone_is_gone_no_new_house_is_advised(folder: Path) -> None:
    (folder / "office.db").unlink()
    with pytest.raises(OfficeMissing, match="Put it back"):
        do("key.list")


def test_a_held_directory_that_does_not_answer_is_named_with_its_holder(folder: Path) -> None:
    with hold_data_dir(folder), pytest.raises(Unreachable, match="runs here already"):
        do("key.list")


def test_what_tasks_do_needs_the_server(folder: Path) -> None:
    with pytest.raises(Unreachable, match="payd serve"):
        do("webhook.test")


def test_nothing_is_made_where_nothing_is(payd: Terminal) -> None:
    with pytest.raises(Refused, match="payd init") as caught:
        do("key.create")
    assert f"No payd data in {Path('data').absolute()}. Go to the folder" in str(caught.value)
    assert not Path("data").exists()


def test_where_no_data_is_no_server_is_asked_for(payd: Terminal) -> None:
    with pytest.raises(Refused, match=r"No payd data in .* Go to the folder where payd runs"):
        do("webhook.test")


def test_the_first_account_begins_a_data_directory(payd: Terminal) -> None:
    assert do("account.create", name="main")["name"] == "main"
    assert Path("data/office.db").exists()


def test_without_a_server_the_relayers_key_stays_locked(payd: Terminal) -> None:
    """Its password may be in the environment of the server alone."""
    write_keystore(payd.folder)
    (payd.folder / "payd.toml").write_text(configuration(["http://127.0.0.1:9"]))
    (payd.folder / "password").write_text("wrong")
    do("account.create", name="one")

    assert do("key.list", mode="live") == []


def test_what_a_terminal_of_another_encoding_sent_is_refused_in_a_line(begun: Terminal) -> None:
    latin = b"K\xe4se".decode("utf-8", "surrogateescape")  # as Python does it with what is typed
    for args in (("account", "create", latin), ("payment", "list", "--reference", latin)):
        assert begun.error(*args).count("\n") == 1
    assert [each["name"] for each in begun.json("account", "list")] == ["main"]
