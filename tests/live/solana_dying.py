"""payd that kills itself once, at one of the moments of a Solana payment that matter most, named by `DIES`.

A file beside its data says that it has died, so that its next life goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from payd.actors.account_repair import AccountRepair
from payd.actors.account_walk import AccountWalk
from payd.actors.submitter_flight import Flight
from payd.chains.rpc import Rpc
from payd.chains.solana.look import Looks
from payd.cli import main
from payd.core.payment import SettlementCompleted, TransferConfirmed
from tests.live.dying import VARIABLE, after_the_broadcast, after_the_confirm, die


def before_the_broadcast() -> None:
    """The transaction is noted as gone, and no node has it."""
    broadcast = Rpc.broadcast

    async def dying(self: Rpc, raw: bytes) -> Any:
        die()
        return await broadcast(self, raw)

    setattr(Rpc, "broadcast", dying)  # noqa: B010


def before_the_transfer_is_stored() -> None:
    """A node has said that it is confirmed, and what it paid is read and not stored."""
    commit, found = AccountWalk._commit, AccountRepair.found

    async def dying(self: AccountWalk, kind: Any, before: Any, after: Any, done: Any, gone: Any = ()) -> Any:
        if done.seen:
            die()
        return await commit(self, kind, before, after, done, gone)

    async def dying_too(self: AccountRepair, tx_id: str) -> Any:
        die()
        return await found(self, tx_id)

    setattr(AccountWalk, "_commit", dying)  # noqa: B010
    setattr(AccountRepair, "found", dying_too)  # noqa: B010


def _before_a_look_is_stored(trigger: type[Any]) -> None:
    look = Looks.look

    async def dying(self: Looks, payment: Any, now_ms: int) -> Any:
        found = await look(self, payment, now_ms)
        if found is not None and isinstance(found.trigger, trigger):
            die()
        return found

    setattr(Looks, "look", dying)  # noqa: B010


def before_the_success_is_stored() -> None:
    """The nodes have proven that it is confirmed, and the payment has not succeeded."""
    _before_a_look_is_stored(TransferConfirmed)


def before_the_settlement_is_stored() -> None:
    """The nodes have proven that it is final, and the payment is not settled."""
    _before_a_look_is_stored(SettlementCompleted)


def before_the_end_is_stored() -> None:
    """The transaction is final, and still open by what is stored."""
    land = Flight._land

    async def dying(self: Flight, one: Any, nursery: Any) -> None:
        die()
        await land(self, one, nursery)

    setattr(Flight, "_land", dying)  # noqa: B010


MOMENTS: Final[dict[str, Callable[[], None]]] = {
    one.__name__: one
    for one in (
        after_the_confirm,
        before_the_broadcast,
        after_the_broadcast,
        before_the_transfer_is_stored,
        before_the_success_is_stored,
        before_the_settlement_is_stored,
        before_the_end_is_stored,
    )
}


if __name__ == "__main__":
    MOMENTS[os.environ[VARIABLE]]()
    main()
