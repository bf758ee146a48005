"""payd that kills itself once, at one of the moments of a live payment that matter most, named by `DIES`.

A file beside its data says that it has died, so that its next life goes on.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from payd.actors.block_walk import BlockWalk
from payd.actors.payments import Payments
from payd.actors.relay_broadcast import Broadcaster
from payd.chains.rpc import Rpc
from payd.cli import main

VARIABLE: Final = "DIES"
MARK: Final = Path("died")


def die() -> None:
    """SIGKILL, the first time."""
    if not MARK.exists():
        MARK.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def after_the_confirm() -> None:
    """The authorization and its job are stored, and the relayer is about to hear of it."""
    tell = Payments.tell_relay

    def dying(self: Payments, chain: str) -> None:
        die()
        tell(self, chain)

    setattr(Payments, "tell_relay", dying)  # noqa: B010


def before_the_broadcast() -> None:
    """The transaction is stored, and no node has it."""
    send = Broadcaster.send

    async def dying(self: Broadcaster, transactions: Any) -> Any:
        if transactions:
            die()
        return await send(self, transactions)

    setattr(Broadcaster, "send", dying)  # noqa: B010


def after_the_broadcast() -> None:
    """A node has the transaction, and nothing says so."""
    broadcast = Rpc.broadcast

    async def dying(self: Rpc, raw: bytes) -> Any:
        answers = await broadcast(self, raw)
        die()
        return answers

    setattr(Rpc, "broadcast", dying)  # noqa: B010


def before_the_commit_of_blocks() -> None:
    """Blocks with a transfer in them were read, and neither it nor the cursor is stored."""
    commit = BlockWalk._commit

    async def dying(self: BlockWalk, kind: Any, before: Any, piece: Any) -> Any:
        if piece.transfers:
            die()
        return await commit(self, kind, before, piece)

    setattr(BlockWalk, "_commit", dying)  # noqa: B010


MOMENTS: Final[dict[str, Callable[[], None]]] = {
    one.__name__: one
    for one in (after_the_confirm, before_the_broadcast, after_the_broadcast, before_the_commit_of_blocks)
}


if __name__ == "__main__":
    MOMENTS[os.environ[VARIABLE]]()
    main()
