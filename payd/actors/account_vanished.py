"""What was shown in a slot that is final now, and is not listed there: it landed elsewhere, or it vanished.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from payd.actors.account_reading import name_of
from payd.chains.asking import answered
from payd.chains.rpc import Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.solana.answers import Listed, Status, decode_statuses, first_in
from payd.chains.solana.asking import FIRST_SLOT_CALL, STATUSES_MAX, statuses_call
from payd.chains.unread import Unread
from payd.chains.witnesses import WITNESSES, needed
from payd.store.db import Tx
from payd.store.payments import find_payment
from payd.store.sightings import Sighting, take_back


class Missing(NamedTuple):
    """What became of transfers that were not listed: nodes agree that some are nowhere."""

    gone: tuple[Sighting, ...] = ()
    elsewhere: tuple[Listed, ...] = ()


async def find_missing(rpc: Rpc, shown: Sequence[Sighting], listed: Iterable[Listed]) -> Missing:
    """What became of those of the shown transfers that no listing has in their slot.

    No node alone takes back what another showed; while the others are away, it stays.

    Args:
        rpc: The chain's nodes.
        shown: Transfers in slots that are final.
        listed: Everything that was listed there.

    Raises:
        Unread: No node says.
    """
    there = {(one.tx_id, name_of(one.slot)) for one in listed if one.err is None}
    missing = [one for one in shown if (one.tx_id, one.block_hash) not in there]
    tx_ids = list(dict.fromkeys(one.tx_id for one in missing))
    if not tx_ids:
        return Missing()
    slots = [one.block_number for one in missing]
    said = await _statuses(rpc, tx_ids, min(slots), max(slots))
    are_enough = len(said) >= needed(rpc)
    gone = {tx_id for tx_id in tx_ids if are_enough and all(_is_void(words[tx_id]) for words in said)}
    elsewhere = {
        tx_id: Listed(tx_id, status.slot, None)
        for words in said
        for tx_id, status in words.items()
        if status is not None and status.err is None and status.commitment == "finalized"
    }
    return Missing(tuple(one for one in missing if one.tx_id in gone), tuple(elsewhere.values()))


async def _statuses(
    rpc: Rpc, tx_ids: Sequence[str], oldest: int, newest: int
) -> list[dict[str, Status | None]]:
    """What nodes say that have all of these slots."""
    chunks = [tx_ids[start : start + STATUSES_MAX] for start in range(0, len(tx_ids), STATUSES_MAX)]
    calls = [FIRST_SLOT_CALL, *(statuses_call(chunk) for chunk in chunks)]
    answers = await rpc.ask_all(calls, at_most=WITNESSES)
    said = [words for _, results in answers if (words := _words(chunks, results, oldest, newest)) is not None]
    if not said:
        raise Unread("no node says what became of transactions that it does not list any more")
    return said


def _words(
    chunks: Sequence[Sequence[str]], results: Results, oldest: int, newest: int
) -> dict[str, Status | None] | None:
    """What one node says of each; None where it cannot say: one that lags knows no status yet, and one that
    has forgotten none any more.
    """
    found: dict[str, Status | None] = {}
    try:
        first = first_in(results[0])
        for chunk, result in zip(chunks, results[1:], strict=True):
            known_at, statuses = decode_statuses(answered(result), len(chunk))
            if known_at < newest:
                return None
            found.update(zip(chunk, statuses, strict=True))
    except BadAnswer:
        return None
    return None if first > oldest and None in found.values() else found


def _is_void(status: Status | None) -> bool:
    """Whether it moved nothing: a node does not know it, or knows that it failed."""
    return status is None or (status.err is not None and status.commitment == "finalized")


def take_vanished(tx: Tx, gone: Sequence[Sighting]) -> tuple[str, ...]:
    """Take back what vanished and what nobody looks after; what pays a payment its own proof denies.

    Returns the payments that had succeeded by it.
    """
    lost: list[str] = []
    for one in gone:
        payment = None if one.payment_id is None else find_payment(tx, one.payment_id)
        if payment is not None and one.kind == "matched" and payment.success is not None:
            lost.append(payment.id)
        if one.awaits is None:
            take_back(tx, one)
    return tuple(dict.fromkeys(lost))
