"""The server of a data directory: where it serves, and what it is asked to make and to take back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from payd.cli.failure import Refused
from payd.config import Config
from payd.web.admin import SOCKET_NAME, NoAnswer, NoServer, call_admin


async def base_url_of(data_dir: Path) -> str | None:
    """Where the server of a data directory serves; None when none answers."""
    try:
        reply = await call_admin(data_dir / SOCKET_NAME, "status", {})
    except (NoServer, NoAnswer):
        return None
    if reply.error is not None or reply.result["baseUrl"].endswith(":0"):
        return None  # it has not got its port yet
    return str(reply.result["baseUrl"])


async def do(config: Config, command: str, args: dict[str, Any], hint: str = "") -> Any:
    """Have the server do a command.

    Raises:
        Refused: It did not; `hint` comes after its words.
        NoServer, NoAnswer: There is none any more.
    """
    reply = await call_admin(config.data_dir / SOCKET_NAME, command, args)
    if reply.error is not None:
        raise Refused(f"{command}: {reply.error.message}{hint}")
    return reply.result


async def undo(config: Config, command: str, args: dict[str, Any]) -> None:
    """As `do`, also when whoever asked is being interrupted."""
    with trio.CancelScope(shield=True):
        await do(config, command, args)


def endings() -> tuple[signal.Signals, ...]:
    """What tells a program to end; that its terminal is closed, only where it is not to outlive that."""
    outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as with nohup
    return (signal.SIGINT, signal.SIGTERM) if outlives else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interruptible() -> Iterator[None]:
    """Told to end, it ends as with Ctrl-C: what it made is taken back, and its server stopped.

    By way of SIGINT: Trio delivers that where a program can be interrupted, and no other signal. A shell that
    starts programs in the background has them ignore it.
    """
    before = {number: signal.getsignal(number) for number in endings()}
    for number in before:
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
