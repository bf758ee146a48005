"""A merchant's word: the transaction that it names for a payment is read, proven, recorded, and linked to it.

Who lost its tag on the way, as with a wallet that cuts calldata or a buyer who sent by hand, is found by this
alone. The chain decides what was paid, the merchant only for which of its payments: what is bound to another
payment stays there, and what is not exact and in time pays nothing.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import structlog
import trio

from payd.actors.payments import Payments
from payd.core.caip import canonical_account, parse_account
from payd.core.errors import ChainUnavailable, InvalidParams, NotFound
from payd.core.payment import Payment
from payd.core.transfer import Kind
from payd.store.db import Tx
from payd.store.payments import find_payment
from payd.store.settlements import list_settlements
from payd.store.sightings import Word, assign
from payd.store.transfers import Transfer, transfers_in
from payd.store.watches import chains_watched

if TYPE_CHECKING:
    from payd.actors.live_chain import LiveChain
    from payd.actors.walk import MatchResult

log = structlog.get_logger("payd.claims")

# A block that the node has is read within a tick or two; one node may be a block behind another for as long.
READ_LOOKS: Final = 8
READ_EVERY_S: Final = 0.5
# Whoever asks waits for nodes that hang, one after the other.
READ_MAX_S: Final = 40.0

Outcome = Literal[
    "matched",
    "recorded",
    "not_offered",
    "other_payment",
    "not_ours",
    "not_mined",
    "not_read_yet",
    "reverted",
    "disagreement",
]
"""matched: it pays the payment. recorded: it is shown with the payment and does not pay it. not_offered: it
reached the merchant, and is nothing that the payment asked for. other_payment: it is bound to another one.
not_ours: it pays none of the merchant's destinations. The others: it cannot be told now, or moved nothing."""

_PASSING: Final[frozenset[Outcome]] = frozenset({"not_read_yet", "disagreement"})

_BEST_FIRST: Final[tuple[Outcome, ...]] = (
    "matched",
    "recorded",
    "not_read_yet",
    "not_mined",
    "disagreement",
    "other_payment",
    "not_offered",
    "reverted",
    "not_ours",
)
"""Of what several chains say, this is told: what was paid, then what may yet be."""

_LINKED: Final[dict[Kind, str]] = {
    "matched": "It pays this payment.",
    "late": "It is recorded with this payment and does not pay it: it came too late.",
    "partial": "It is recorded with this payment and does not pay it: it is less than was asked for.",
    "surplus": "It is recorded with this payment and does not pay it: it is too much, or one payment more.",
    "unmatched": "It is recorded with this payment and does not pay it: it is not what was asked for.",
}
_NOT_OURS: Final = "The transaction pays none of the merchant's destinations."
_AGAIN: Final = "If it is not found by itself in a minute, name it again."


class Claimed(msgspec.Struct, frozen=True):
    """What a merchant's word came to.

    Attributes:
        outcome: For programs.
        words: For people.
        transfers: What the transaction paid to the merchant, as it is stored now.
    """

    outcome: Outcome
    words: str
    transfers: tuple[Transfer, ...] = ()


async def claim(
    payments: Payments,
    chains: Sequence[LiveChain],
    payment: Payment,
    tx_id: str,
    chain: str | None,
    actor: str,
    merchants: frozenset[str] | None = None,
) -> Claimed:
    """Have a transaction counted for a payment. Safe to repeat; goes on when the caller is gone.

    Args:
        payments: Of the realm.
        chains: Those that are configured.
        payment: Of the merchant who says so.
        tx_id: As it was pasted.
        chain: CAIP-2 of the chain to look on; None: the payment's own chains, and then the others, until it
            pays on one.
        actor: Who says so, for the audit.
        merchants: Those that it speaks for; None: all of the account.

    Raises:
        NotFound: No node knows the transaction.
        InvalidParams: It is no hash of a transaction, or there is no such chain here.
        ChainUnavailable: It may be on a chain whose nodes do not answer.
        StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
    """
    asked = _asked(payments, chains, payment, chain)
    return await payments.in_background(lambda: _claim(payments, asked, payment, tx_id, actor, merchants))


async def _claim(
    payments: Payments,
    asked: Sequence[LiveChain],
    payment: Payment,
    tx_id: str,
    actor: str,
    merchants: frozenset[str] | None,
) -> Claimed:
    """What comes of it on the chain where it pays; on none: the best of what is told.

    What was signed for no certain chain can be brought to several, and is called the same on each.
    """
    told: list[Claimed] = []
    unknown: list[str] = []
    troubles: list[ChainUnavailable | InvalidParams] = []
    until_s = trio.current_time() + READ_MAX_S
    for one in asked:
        try:
            read = await _read_on(one, tx_id, until_s)
        except (ChainUnavailable, InvalidParams) as trouble:
            troubles.append(trouble)
            continue
        if read.outcome == "unknown":
            unknown.append(one.name)
            continue
        claimed = await _linked(payments, one, read, payment, actor, merchants)
        if claimed.outcome == "matched":
            return claimed
        told.append(claimed)
    if not told:
        raise _nowhere(unknown, troubles)
    return min(told, key=lambda claimed: _BEST_FIRST.index(claimed.outcome))


async def _linked(
    payments: Payments,
    one: LiveChain,
    read: MatchResult,
    payment: Payment,
    actor: str,
    merchants: frozenset[str] | None,
) -> Claimed:
    """What comes of it on one chain that knows the transaction."""
    assert read.outcome != "unknown", "that chain does not know it"
    if read.outcome == "not_ours":
        return Claimed("not_ours", _NOT_OURS)
    if read.outcome == "not_read_yet":
        return Claimed(read.outcome, f"The transaction is in a block that is about to be read. {_AGAIN}")
    if read.outcome == "not_mined":
        return Claimed(read.outcome, f"The transaction waits to be mined. {_AGAIN}")
    if read.outcome != "recorded":
        return Claimed(read.outcome, read.words)
    canonical = read.sightings[0].tx_id
    now_ms = payments.clock.now_ms()
    words = await payments.db.write(assign, payment.id, one.name, canonical, actor, now_ms, merchants)
    for word in words:
        if word.came_to == "linked":
            sighting = word.sighting
            log.info("claim.linked", payment_id=payment.id, tx_id=sighting.tx_id, kind=sighting.kind)
    if any(word.came_to == "linked" and word.sighting.kind == "matched" for word in words):
        await payments.tending.news(payment.id, one.name)
    return _told(payments, payment, one.name, canonical, words)


def _asked(
    payments: Payments, chains: Sequence[LiveChain], payment: Payment, chain: str | None
) -> list[LiveChain]:
    """The chains to look on, the likeliest first."""
    if chain is not None:
        named = [one for one in chains if one.name == chain]
        if not named:
            names = ", ".join(one.name for one in chains)
            raise InvalidParams(f"chain: {chain} is not configured. There is {names or 'none'}.")
        return named
    if not chains:
        raise InvalidParams("No chain is configured, so no transaction can be read.")
    watched = {name for _, name in payments.db.point(chains_watched, [payment.id])}
    return sorted(chains, key=lambda one: one.name not in watched)


def _nowhere(
    unknown: Sequence[str], troubles: Sequence[ChainUnavailable | InvalidParams]
) -> NotFound | ChainUnavailable | InvalidParams:
    """Why: one that may know it does not answer, on none a transaction is called so, or none knows it."""
    for trouble in troubles:
        if isinstance(trouble, ChainUnavailable):
            return trouble
    if not unknown:
        return troubles[0]
    nodes = f"No node of {', '.join(unknown)}"
    return NotFound(f"{nodes} knows this transaction. Is the id right, and sent on that chain?")


async def _read_on(one: LiveChain, tx_id: str, until_s: float) -> MatchResult:
    """What a chain says, once it was read up to the transaction's block and its nodes agree.

    Raises:
        InvalidParams: No transaction of this chain is called so.
        ChainUnavailable: Its nodes do not answer, or not until then.
    """
    with trio.move_on_at(until_s):
        read = await one.watcher.match(tx_id)
        for _ in range(READ_LOOKS):
            if read.outcome not in _PASSING:
                break
            await trio.sleep(READ_EVERY_S)
            read = await one.watcher.match(tx_id)
        return read
    raise ChainUnavailable("The nodes take too long. Try again.")


def _told(payments: Payments, payment: Payment, chain: str, tx_id: str, words: Sequence[Word]) -> Claimed:
    """The best that came of it, with the transfers that are this merchant's business."""
    destinations = payments.db.point(_destinations, payment.merchant_id)
    transfers = tuple(
        one
        for one in payments.db.point(transfers_in, chain, tx_id)
        if one.account_id == payment.account_id and _is_own(payments, payment, one, destinations)
    )
    linked = [one for one in transfers if one.payment_id == payment.id]
    if linked:
        best = next((one for one in linked if one.kind == "matched"), linked[0])
        return Claimed("matched" if best.kind == "matched" else "recorded", _LINKED[best.kind], transfers)
    for word in words:
        if word.came_to == "taken":
            return Claimed("other_payment", word.reason, transfers)
    for word in words:
        if word.came_to == "strange" and word.sighting.recipient in destinations:
            return Claimed("not_offered", f"It is left as it is. {word.reason}", transfers)
    return Claimed("not_ours", _NOT_OURS)


def _is_own(payments: Payments, payment: Payment, transfer: Transfer, destinations: set[str]) -> bool:
    """Whether a transfer of the account may be shown to who speaks for this merchant."""
    if transfer.payment_id is None:
        return transfer.recipient in destinations
    other = payments.db.point(find_payment, transfer.payment_id)
    return other is not None and other.merchant_id == payment.merchant_id


def _destinations(tx: Tx, merchant_id: str) -> set[str]:
    """Where the merchant is paid, canonical CAIP-10."""
    settlements = list_settlements(tx, merchant_id)
    return {canonical_account(parse_account(one.destination)) for one in settlements}
