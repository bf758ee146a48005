"""The admin door: a unix socket in the data directory, one line of JSON in, one line out.

Who may open the socket file is the operator: it is its owner's alone, and the peer's user is checked for
each connection again.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
import trio

from payd.core.errors import InternalError, InvalidParams, Issue, PaydError

if TYPE_CHECKING:
    from payd.web.house import House

SOCKET_NAME: Final = "admin.sock"

REQUEST_BYTES_MAX: Final = 3 * 1024 * 1024  # the longest command brings a merchant's logo, in base64
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024  # the longest answer is a list of accounts
REQUEST_DEADLINE_S: Final = 5.0  # the peer is a program on this machine, not a person
ANSWER_DEADLINE_S: Final = 60.0  # the slowest command waits for a webhook endpoint's 15 s
CONNECTIONS_MAX: Final = 16  # one operator; more wait
CHUNK_BYTES: Final = 65_536
PATH_BYTES_MAX: Final = 100  # sun_path has 104 to 108 by system

log = structlog.get_logger("payd.admin")


class NoServer(Exception):
    """Nobody listens on the socket: nothing was done."""


class NoAnswer(Exception):
    """The server took the command and went away: it may have been done."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command by its name, with its arguments."""

    command: str
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Refusal(msgspec.Struct, frozen=True):
    """Why a command was refused, and which fields are wrong."""

    code: str
    message: str
    issues: tuple[Issue, ...] = ()


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the two: what the command returned, or why it was refused."""

    result: Any = None
    error: Refusal | None = None


async def serve_admin(
    house: House, path: Path, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve commands on a socket at `path` until cancelled.

    The caller holds the data directory, so that what lies at `path` is nobody's and is replaced. The socket
    gets its name only once nobody else can open it.

    Raises:
        OSError: There can be no socket there, as on some folders that are shared with a virtual machine; its
            `filename` says where.
    """
    draft = path.with_name(path.name + ".new")
    _forget(draft)
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            with _reachable(draft) as address:
                await listening.bind(address)
        except OSError as error:
            error.filename = f"{path}, which is a unix socket: choose a data directory that can have one"
            raise
        draft.chmod(0o600)
        listening.listen(CONNECTIONS_MAX)
        draft.rename(path)
        places = trio.Semaphore(CONNECTIONS_MAX)

        async def serve_one(stream: trio.SocketStream) -> None:
            async with places, stream:
                await _converse(house, stream)

        try:
            task_status.started()
            await trio.serve_listeners(serve_one, [trio.SocketListener(listening)])
        finally:
            # On a disk that turned read-only it stays, and the next server replaces it.
            with suppress(OSError):
                _forget(path)


async def call_admin(
    path: Path,
    command: str,
    args: msgspec.Struct | dict[str, Any],
    *,
    deadline_s: float = ANSWER_DEADLINE_S,
) -> Reply:
    """Have the running server do a command.

    Raises:
        NoServer: None listens on `path`.
        NoAnswer: It went away, or took longer than `deadline_s`.
    """
    request = msgspec.json.encode({"command": command, "args": args})
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as calling:
        try:
            with _reachable(path) as address:
                await calling.connect(address)
        except OSError as error:
            raise NoServer(str(error)) from None
        stream = trio.SocketStream(calling)
        try:
            with trio.fail_after(deadline_s):
                await stream.send_all(request + b"\n")
                line = await _read_line(stream, ANSWER_BYTES_MAX)
            return msgspec.json.decode(line, type=Reply)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, msgspec.DecodeError) as error:
            raise NoAnswer(
                "The server did not answer, and may have done it. Look before trying again."
            ) from error


async def _converse(house: House, stream: trio.SocketStream) -> None:
    """One connection: one command."""
    try:
        with trio.fail_after(REQUEST_DEADLINE_S):
            line = await _read_line(stream, REQUEST_BYTES_MAX)
        reply = await _answer(house, stream.socket, line)
        with trio.fail_after(REQUEST_DEADLINE_S):
            await stream.send_all(msgspec.json.encode(reply) + b"\n")
    except (trio.TooSlowError, trio.BrokenResourceError) as gone:
        log.info("admin.gone", reason=repr(gone))


async def _answer(house: House, peer: trio.socket.SocketType, line: bytes) -> Reply:
    # Here and not above: the commands know every handler, and who only calls should not wait for them.
    from payd.web.commands import COMMANDS, run_command

    command = ""
    try:
        _check_peer(peer)
        request = msgspec.json.decode(line, type=Request)
        command = request.command
        result = await run_command(house, command, request.args)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _refused(InvalidParams(f"Not a command: {error}"))
    except PaydError as refused:
        log.info("admin.refused", command=command, code=refused.code)
        return _refused(refused)
    except Exception:
        log.exception("admin.crashed", command=command)
        return _refused(InternalError("Something broke in the server; its log says what."))
    (log.info if COMMANDS[command].changes else log.debug)("admin.done", command=command)
    return Reply(result=result)


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)


def _refused(error: PaydError) -> Reply:
    return Reply(error=Refusal(error.code, error.message, error.issues))


def _check_peer(peer: trio.socket.SocketType) -> None:
    """Refuse another user, but not root: nobody else can be a user whom systemd made up for the server.

    What root makes belongs to whom the data directory belongs. Where the system does not name the peer, the
    file's mode is the only lock.
    """
    own = os.geteuid()
    if hasattr(socket, "SO_PEERCRED") and _uid_of(peer) not in (own, 0):
        raise InvalidParams(f"The server runs as user {own}. Run this command as that user, or as root.")


def _uid_of(peer: trio.socket.SocketType) -> int:
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)


async def _read_line(stream: trio.SocketStream, bytes_max: int) -> bytes:
    """Up to the first line end or the end of the stream; at most `bytes_max`, and then it is cut."""
    data = bytearray()
    while b"\n" not in data and len(data) < bytes_max:
        chunk = await stream.receive_some(CHUNK_BYTES)
        if not chunk:
            break
        data += chunk
    return bytes(data[:bytes_max].partition(b"\n")[0])


@contextmanager
def _reachable(path: Path) -> Iterator[str]:
    """A name for `path` that fits into a socket address: a deep folder is named by a handle on it."""
    if len(os.fsencode(path)) <= PATH_BYTES_MAX or not os.path.isdir("/proc/self/fd"):
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
