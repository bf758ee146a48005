"""The admin door: one line in, one line out, for the operator alone, and nothing stops the server."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import trio
from structlog.testing import capture_logs

from payd.core.errors import InvalidParams
from payd.web import admin, commands
from payd.web.admin import SOCKET_NAME, NoAnswer, NoServer, call_admin, serve_admin
from payd.web.command import Args, Command
from payd.web.house import House

pytestmark = pytest.mark.real_time


@dataclass
class FakeHouse:
    """What the commands below touch."""

    calls: list[str] = field(default_factory=list)


class Echo(Args, frozen=True):
    text: str = "hello"


async def echo(house: Any, args: Echo) -> Any:
    house.calls.append(args.text)
    return {"text": args.text}


async def refuse(_house: Any, _args: Args) -> Any:
    raise InvalidParams("Not like this.")


async def crash(_house: Any, _args: Args) -> Any:
    raise RuntimeError("a bug with whsec_secret inside")


async def look(_house: Any, _args: Args) -> Any:
    return None


async def wait(_house: Any, _args: Args) -> Any:
    await trio.sleep_forever()


@pytest.fixture(autouse=True)
def _commands(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"echo": (Echo, echo), "refuse": (Args, refuse), "crash": (Args, crash), "wait": (Args, wait)}
    for name, (args, run) in table.items():
        monkeypatch.setitem(commands.COMMANDS, name, Command(args, run))
    monkeypatch.setitem(commands.COMMANDS, "look", Command(Args, look, changes=False))


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[FakeHouse]:
    house = FakeHouse()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_admin, cast(House, house), path)
        yield house
        nursery.cancel_scope.cancel()


async def raw(path: Path, data: bytes, *, ends: bool = False) -> bytes:
    """What the server sends back for bytes that no client of ours would send."""
    async with await trio.open_unix_socket(str(path)) as stream:
        await stream.send_all(data)
        if ends:
            await stream.send_eof()
        got = b""
        while chunk := await stream.receive_some():
            got += chunk
        return got


async def test_a_command_is_done_and_answered(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path) as house:
        assert (await call_admin(path, "echo", {"text": "hi"})).result == {"text": "hi"}
        assert (await call_admin(path, "echo", Echo("struct"))).result == {"text": "struct"}
        assert house.calls == ["hi", "struct"]


async def test_what_only_looks_leaves_no_line_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    with capture_logs() as lines:
        async with served(path):
            for command in ("look", "echo", "look"):
                await call_admin(path, command, {})
    done = [(line["command"], line["log_level"]) for line in lines if line["event"] == "admin.done"]
    assert done == [("look", "debug"), ("echo", "info"), ("look", "debug")]


async def test_arguments_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path):
        answer = msgspec.json.decode(await raw(path, b'{"command":"echo"}\n'))
    assert answer == {"result": {"text": "hello"}}


async def test_a_refusal_comes_back_with_its_code_and_words(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path):
        reply = await call_admin(path, "refuse", {})
    assert reply.result is None
    assert reply.error == admin.Refusal("invalid_params", "Not like this.")


async def test_a_bug_is_an_internal_error_that_tells_nothing_and_the_server_goes_on(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path):
        reply = await call_admin(path, "crash", {})
        assert reply.error is not None
        assert reply.error.code == "internal_error"
        assert "whsec_" not in reply.error.message
        assert (await call_admin(path, "echo", {})).error is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"\n", "Not a command"),
        (b"GET / HTTP/1.1\r\n", "Not a command"),
        (b"\xff\xfe\n", "Not a command"),
        (b"[]\n", "Not a command"),
        (b'{"command":5}\n', "Not a command"),
        (b'{"command":"echo","extra":1}\n', "Not a command"),
        (b'{"command":"nothing"}\n', "no command"),
        (b'{"command":"echo","args":{"text":1}}\n', "Expected `str`"),
        (b'{"command":"echo","args":[]}\n', "Expected `object`"),
    ],
)
async def test_nonsense_is_refused_and_the_server_goes_on(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path) as house:
        answer = msgspec.json.decode(await raw(path, line))
        assert words in answer["error"]["message"]
        assert house.calls == []
        assert (await call_admin(path, "echo", {})).error is None


async def test_a_line_without_an_end_is_cut_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path) as house:
        line = b'{"command":"echo"}'.ljust(admin.REQUEST_BYTES_MAX)
        answer = msgspec.json.decode(await raw(path, line[1:] + b" "))
        assert answer["error"]["code"] == "invalid_params"
        assert house.calls == []


async def test_the_last_line_needs_no_end_when_the_peer_is_done(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path):
        assert b"hello" in await raw(path, b'{"command":"echo"}', ends=True)


async def test_a_silent_peer_is_left_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "REQUEST_DEADLINE_S", 0.01)
    path = tmp_path / SOCKET_NAME
    async with served(path):
        assert await raw(path, b"") == b""


async def test_a_peer_that_leaves_early_harms_nobody(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path):
        for _ in range(admin.CONNECTIONS_MAX + 1):
            stream = await trio.open_unix_socket(str(path))
            await stream.send_all(b'{"command":"echo"}\n')
            await stream.aclose()
        assert (await call_admin(path, "echo", {})).error is None


async def test_the_socket_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path):
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert os.listdir(tmp_path) == [SOCKET_NAME]


async def test_another_user_is_refused_whatever_the_file_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / SOCKET_NAME
    own = os.geteuid()
    monkeypatch.setattr(admin, "_uid_of", lambda _: own + 1)
    async with served(path) as house:
        reply = await call_admin(path, "echo", {})
        assert reply.error is not None
        assert f"runs as user {own}. " in reply.error.message
        assert house.calls == []


async def test_root_is_the_operator_of_a_server_that_runs_as_a_user_whom_nobody_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service that README shows: its user is made up, and its data lie where only root may look."""
    path = tmp_path / SOCKET_NAME
    monkeypatch.setattr(admin, "_uid_of", lambda _: 0)
    async with served(path):
        monkeypatch.setattr(os, "geteuid", lambda: 61184)
        assert (await call_admin(path, "echo", {})).result == {"text": "hello"}


async def test_a_deep_folder_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / ("d" * 100) / ("e" * 100) / SOCKET_NAME
    path.parent.mkdir(parents=True)
    async with served(path):
        assert (await call_admin(path, "echo", {})).result == {"text": "hello"}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_socket_is_gone_when_the_server_is(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with served(path):
        pass
    assert not path.exists()
    with pytest.raises(NoServer):
        await call_admin(path, "echo", {})


async def test_a_socket_that_cannot_be_taken_away_is_no_reason_to_end_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk turned read-only meanwhile; the next server replaces what is left."""

    def refuse(_: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    path = tmp_path / SOCKET_NAME
    with monkeypatch.context() as patch:
        async with served(path):
            patch.setattr(admin, "_forget", refuse)
    assert path.exists()

    async with served(path):
        assert (await call_admin(path, "echo", {"text": "hi"})).result == {"text": "hi"}
    assert not path.exists()


async def test_what_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
    path.with_name(SOCKET_NAME + ".new").touch()
    with pytest.raises(NoServer):
        await call_admin(path, "echo", {})
    async with served(path):
        assert (await call_admin(path, "echo", {})).error is None


async def test_where_there_can_be_no_socket_its_place_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def bind(_socket: Any, _address: str) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    path = tmp_path / SOCKET_NAME
    with trio.socket.socket() as one:
        monkeypatch.setattr(type(one), "bind", bind)
    with pytest.raises(OSError, match="Operation not supported") as refused:
        await serve_admin(cast(House, FakeHouse()), path)

    assert str(refused.value.filename).startswith(f"{path}, which is a unix socket: choose")


async def test_a_server_that_goes_away_may_have_done_it(tmp_path: Path) -> None:
    path = tmp_path / SOCKET_NAME
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_admin, cast(House, FakeHouse()), path)
        nursery.start_soon(_cancel_soon, nursery.cancel_scope, path)
        with trio.CancelScope(shield=True), pytest.raises(NoAnswer, match="may have done it"):
            await call_admin(path, "wait", {})


async def _cancel_soon(scope: trio.CancelScope, path: Path) -> None:
    await call_admin(path, "echo", {})
    scope.cancel()
