"""Where commands are done: by the running server through its admin socket, else here, on the opened store."""

from __future__ import annotations

from typing import Any

import msgspec
import trio

from payd import logs
from payd.cli.failure import Refused, Unreachable, check_there, with_issues, writing
from payd.cli.pasted import Paste, pasted
from payd.config import Config
from payd.store.lock import DataDirectoryBusy

# The first command of somebody who starts from nothing.
FIRST = "account.create"


def ask(config: Config, command: str, args: dict[str, Any], paste: Paste = pasted) -> Any:
    """Have a command done.

    Args:
        config: Of the house.
        command: One of `web/commands.py`.
        args: Its own.
        paste: Makes a command on the same house, for a hint, from the words behind `payd`.

    Returns:
        What it answers, as decoded JSON.

    Raises:
        Refused, PaydError: It cannot be done.
        Unreachable: A server is needed and none runs, or one holds the data directory and does not answer.
    """
    from payd.web.admin import SOCKET_NAME, NoAnswer, NoServer, call_admin

    path = config.data_dir / SOCKET_NAME
    try:
        reply = trio.run(call_admin, path, command, args)
    except NoServer:
        return _do_here(config, command, args, paste)
    except NoAnswer as unknown:
        raise Unreachable(str(unknown)) from unknown
    if reply.error is not None:
        raise Refused(with_issues(reply.error.message, reply.error.issues))
    return reply.result


def _do_here(config: Config, command: str, args: dict[str, Any], paste: Paste) -> Any:
    from payd.web.commands import COMMANDS

    try:
        with writing(config.data_dir):
            if command != FIRST:
                check_there(config.data_dir, paste("init"))
            if COMMANDS[command].needs_server:
                start = paste("serve")
                raise Unreachable(f"This needs the running server. Start it in another terminal: {start}")
            return trio.run(_on_store, config, command, args)
    except DataDirectoryBusy as busy:
        if busy.work is not None:
            raise
        raise Unreachable(f"{busy}; it does not answer on its admin socket") from busy


async def _on_store(config: Config, command: str, args: dict[str, Any]) -> Any:
    from payd.server import open_house
    from payd.web.commands import run_command

    logs.configure("auto", "warning")  # to standard error: what is printed is the answer
    # The relayer's key stays locked: its password may be the server's alone.
    async with open_house(config, relays=False) as house:
        result = await run_command(house, command, msgspec.json.encode(args))
    return msgspec.to_builtins(result)
