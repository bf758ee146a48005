"""Transfers as a chain shows them: what each pays for, the block it is in, and when it is looked at again.

A row of `transfers` is the same one wherever a reorg moves its transaction: it is named by the transaction
and its place among that transaction's logs. What is found and how far the chain was read are stored in one
transaction, so that nothing is lost between the two.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

import payd.core.transfer as rule
from payd.core.payment import Payment
from payd.core.status import OVER, Status
from payd.core.transfer import Kind
from payd.store.audit import insert_audit
from payd.store.chain_cursors import Cursor, turn_back
from payd.store.commitments import committed, is_held
from payd.store.options import quotes_in
from payd.store.payments import find_payment
from payd.store.relays import reopen_above
from payd.store.settlements import account_at
from payd.store.watches import BINDINGS_AT_ONCE, account_watching, find_watch

Tx: TypeAlias = sqlite3.Connection
Limit: TypeAlias = frozenset[str] | None

_COLUMNS: Final = (
    "account_id, payment_id, chain, tx_id, log_index, asset, value, sender, recipient, kind, block_number,"
    " block_hash, block_time_s, awaits, look_at, assigned"
)


class Seen(msgspec.Struct, frozen=True):
    """A transfer in a block, and what binds it to a payment, if anything does. All texts are canonical.

    Attributes:
        log_index: Its place among the logs of its own transaction; -1 of the chain's own coin.
        binding: Was handed out for this asset on this chain.
    """

    chain: str
    tx_id: str
    log_index: int
    asset: str
    value: int
    sender: str
    recipient: str
    block_number: int
    block_hash: str
    block_time_s: int
    binding: bytes | None = None


class Sighting(msgspec.Struct, frozen=True):
    """A stored transfer.

    Attributes:
        block_hash: None once a reorg took it, until it is seen again.
        assigned: It is for its payment because the merchant says so, whatever it carries.
    """

    account_id: str
    payment_id: str | None
    chain: str
    tx_id: str
    log_index: int
    asset: str
    value: int
    sender: str
    recipient: str
    kind: Kind
    block_number: int
    block_hash: str | None
    block_time_s: int
    awaits: Literal["depth", "final"] | None = None
    look_at: int | None = None
    assigned: bool = False


class Noted(msgspec.Struct, frozen=True):
    """A transfer that was stored or has changed, and why it is what it is, in words."""

    sighting: Sighting
    reason: str


class Word(NamedTuple):
    """What a merchant's word about a transfer came to, and why.

    linked: it is shown with the payment, as what it is. taken: it is for another payment, and stays so.
    strange: it is nothing that was asked for, and stays as it is.
    """

    sighting: Sighting
    came_to: Literal["linked", "taken", "strange"]
    reason: str


class TurnedBack(msgspec.Struct, frozen=True):
    """What a reorg took.

    Attributes:
        transfers: How many transfers are in no block now.
        lost: Payments that were told to have succeeded by one of them.
        paid_by_others: Payments which another transfer pays in its stead.
    """

    transfers: int
    lost: tuple[str, ...]
    paid_by_others: tuple[str, ...]


def record(tx: Tx, seen: Iterable[Seen], now_ms: int) -> list[Noted]:
    """Store transfers as the chain shows them now; in the transaction that moves the cursor over them.

    Returns:
        Those that were not stored, or were stored otherwise; without those to nobody's destination.
    """
    noted = [_record(tx, one, now_ms) for one in seen]
    return [one for one in noted if one is not None]


def assign(
    tx: Tx, payment_id: str, chain: str, tx_id: str, actor: str, now_ms: int, merchants: Limit = None
) -> list[Word]:
    """Take the word of a payment's merchant that a transaction is for it; in the order of its logs.

    What it paid to other accounts is left out. A transfer is judged as if the chain bound it to the payment,
    and is not judged again. What is bound to another payment stays there, but for what a merchant assigned
    by mistake and what paid for nothing there.

    Args:
        tx: The step's transaction.
        payment_id: Of a payment that there is.
        chain: CAIP-2.
        tx_id: In lower case.
        actor: Who says so, for the audit.
        now_ms: Unix milliseconds of the realm.
        merchants: Whose payments it may be taken from; None: any of the account.
    """
    payment = find_payment(tx, payment_id)
    assert payment is not None
    own = [one for one in sightings_in(tx, chain, tx_id) if one.account_id == payment.account_id]
    return [_assign(tx, payment, one, actor, now_ms, merchants) for one in own]


def matched_of(tx: Tx, payment_id: str) -> list[Sighting]:
    """The transfers that pay a payment and that the chain shows, oldest first. One, but for bad luck."""
    where = "payment_id = ? AND kind = 'matched' AND block_hash IS NOT NULL ORDER BY seq"
    return _sightings(tx, where, payment_id)


def sightings_in(tx: Tx, chain: str, tx_id: str) -> list[Sighting]:
    """What is stored of a transaction, in the order of its logs."""
    return _sightings(tx, "chain = ? AND tx_id = ? ORDER BY log_index", chain, tx_id)


def blocks_of(tx: Tx, chain: str, tx_ids: Sequence[str], *, paying: bool = False) -> set[tuple[str, str]]:
    """Those of the transactions that are stored, each with its block; `paying`: of those that pay."""
    which = " AND kind = 'matched'" if paying else ""
    found: set[tuple[str, str]] = set()
    for start in range(0, len(tx_ids), BINDINGS_AT_ONCE):
        some = tx_ids[start : start + BINDINGS_AT_ONCE]
        marks = ",".join("?" * len(some))
        found.update(
            tx.execute(
                f"SELECT tx_id, block_hash FROM transfers WHERE chain = ? AND tx_id IN ({marks})"
                f" AND block_hash IS NOT NULL{which}",
                (chain, *some),
            )
        )
    return found


def sightings_between(tx: Tx, chain: str, above: int, to: int) -> list[Sighting]:
    """Transfers that are shown in the blocks above one, up to another, oldest first."""
    where = "chain = ? AND block_number > ? AND block_number <= ? AND block_hash IS NOT NULL ORDER BY seq"
    return _sightings(tx, where, chain, above, to)


def rewind(tx: Tx, chain: str, to: Cursor) -> TurnedBack:
    """A reorg begins above this block: have the chain read again from there, and take back what was above.

    Nothing that was told is taken back. A payment that is not paid any more may be paid by another transfer,
    which was too much before.
    """
    where = "chain = ? AND block_number > ? AND block_hash IS NOT NULL ORDER BY seq"
    shown = _sightings(tx, where, chain, to.number)
    tx.execute(
        "UPDATE transfers SET block_hash = NULL, look_at = NULL WHERE chain = ? AND block_number > ?",
        (chain, to.number),
    )
    turn_back(tx, chain, to)
    reopen_above(tx, chain, to.number)
    lost, paid_by_others = [], []
    for sighting in shown:
        payment = _payment_of(tx, sighting)
        if payment is None or sighting.kind != "matched":
            continue
        if payment.success is not None:
            lost.append(payment.id)
        elif _match_another(tx, payment):
            paid_by_others.append(payment.id)
        is_done = payment.settled is not None or payment.status in OVER
        _await(tx, sighting, "matched", None if is_done else "depth", None)
    return TurnedBack(len(shown), tuple(lost), tuple(paid_by_others))


def _assign(tx: Tx, payment: Payment, sighting: Sighting, actor: str, now_ms: int, merchants: Limit) -> Word:
    if sighting.payment_id == payment.id:
        return Word(sighting, "linked", "It was recorded before.")
    if sighting.payment_id is not None and not _can_move(tx, sighting, merchants):
        return Word(sighting, "taken", "It is bound to another payment, and stays with it.")
    judged = _judge(tx, payment, sighting, None)
    if judged.kind == "unmatched":
        return Word(sighting, "strange", judged.reason)
    follows = judged.kind == "matched" and payment.settled is None
    now = msgspec.structs.replace(
        sighting,
        payment_id=payment.id,
        kind=judged.kind,
        awaits="depth" if follows else None,
        look_at=sighting.block_number if follows and sighting.block_hash is not None else None,
        assigned=True,
    )
    _store(tx, now, now_ms)
    details = {"chain": now.chain, "txId": now.tx_id, "logIndex": now.log_index, "kind": now.kind}
    insert_audit(
        tx,
        at_ms=now_ms,
        account_id=payment.account_id,
        actor=actor,
        act="transfer.assign",
        subject=payment.id,
        details={**details, "before": sighting.payment_id},
    )
    return Word(now, "linked", judged.reason)


def _can_move(tx: Tx, sighting: Sighting, merchants: Limit) -> bool:
    """Whether a merchant only said so, of a payment that it does not pay, and the same may say otherwise."""
    if not sighting.assigned or sighting.kind == "matched":
        return False
    payment = _payment_of(tx, sighting)
    return merchants is None or (payment is not None and payment.merchant_id in merchants)


def take_back(tx: Tx, sighting: Sighting) -> None:
    """A stored transfer never was in its block: it pays nothing, unless it is seen again.

    Another one that was too much beside it pays in its stead.
    """
    taken = tx.execute(
        "UPDATE transfers SET block_hash = NULL, awaits = NULL, look_at = NULL"
        " WHERE chain = ? AND tx_id = ? AND log_index = ? AND block_hash = ?",
        (sighting.chain, sighting.tx_id, sighting.log_index, sighting.block_hash),
    ).rowcount
    payment = _payment_of(tx, sighting)
    if taken and payment is not None and payment.success is None:
        _match_another(tx, payment)


def hold_to_commitment(tx: Tx, payment_id: str) -> None:
    """A wallet signed what payd brings to the chain: only that pays from now on, in the step that stores so.

    Another transfer may have seemed to pay before: one more of the buyer's, or what a node made up.
    """
    payment = find_payment(tx, payment_id)
    assert payment is not None
    matched = _sightings(tx, "payment_id = ? AND kind = 'matched'", payment_id)
    others = [one for one in matched if (one.asset, one.value) != committed(payment)]
    for one in others:
        _await(tx, one, "surplus", None, None)
    if others:
        _match_another(tx, payment)


def pay_by_told(tx: Tx, payment_id: str) -> None:
    """A wallet told of what it sent, in the step that stores so: that pays, also if it was found before.

    Then it may have come too late for a quote that had ended, and the same is asked for again.
    """
    payment = find_payment(tx, payment_id)
    assert payment is not None
    _match_another(tx, payment)


def pay_in_stead(tx: Tx, payment_id: str, since_ms: int = -1) -> bool:
    """What a wallet signed can not come, or need not: whether another transfer pays from now on in its stead.

    It was too much beside what was signed, though it was asked for and in time, and seen after `since_ms`.
    """
    payment = find_payment(tx, payment_id)
    assert payment is not None
    return payment.status is Status.PROCESSING and _match_another(tx, payment, False, since_ms)


def _record(tx: Tx, seen: Seen, now_ms: int) -> Noted | None:
    known = _known(tx, seen)
    payment = _claimed(tx, seen, known)
    if known is not None and _is_same(known, seen, payment):
        # It was judged when it was found; what happened since makes it nothing else.
        return None
    judged = _judge(tx, payment, seen, known)
    account_id = None if payment is None else payment.account_id
    if judged.kind == "unmatched":
        # It may carry the binding of somebody else's payment: it belongs to whom it was paid.
        owner_id = _owner(tx, seen)
        if owner_id != account_id:
            account_id, payment = owner_id, None
    if account_id is None:
        return None
    follows = judged.kind == "matched" and payment is not None and payment.settled is None
    now = Sighting(
        account_id=account_id,
        payment_id=None if payment is None else payment.id,
        chain=seen.chain,
        tx_id=seen.tx_id,
        log_index=seen.log_index,
        asset=seen.asset,
        value=seen.value,
        sender=seen.sender,
        recipient=seen.recipient,
        kind=judged.kind,
        block_number=seen.block_number,
        block_hash=seen.block_hash,
        block_time_s=seen.block_time_s,
        awaits="depth" if follows else None,
        look_at=seen.block_number if follows else None,
        assigned=known is not None and known.assigned and payment is not None,
    )
    if now == known:
        # It is bound to a payment of somebody else, who is not paid by it, and was so before.
        return None
    _store(tx, now, now_ms)
    paid = _payment_of(tx, known) if known is not None and known.kind == "matched" else None
    if paid is not None and paid.success is None and (now.kind, now.payment_id) != ("matched", paid.id):
        _match_another(tx, paid)
    return Noted(now, judged.reason)


def _is_same(known: Sighting, seen: Seen, payment: Payment | None) -> bool:
    """Whether the chain shows what it showed before, in the same block, for the same payment.

    Of what pays the time is proven by nobody, and matters no more.
    """
    return (
        known.payment_id == (None if payment is None else payment.id)
        and (known.kind == "matched" or known.block_time_s == seen.block_time_s)
        and (known.block_hash, known.block_number) == (seen.block_hash, seen.block_number)
        and (known.asset, known.value) == (seen.asset, seen.value)
        and (known.sender, known.recipient) == (seen.sender, seen.recipient)
    )


def _claimed(tx: Tx, seen: Seen, known: Sighting | None) -> Payment | None:
    """The payment that the transfer is for: by its binding, and if that cannot be read now, as it was.

    What a merchant assigned was free, whatever it carries. What a payment has succeeded by is that one's,
    also where bindings that were handed out since name another: nothing pays twice.
    """
    before = None if known is None else _payment_of(tx, known)
    success = None if before is None else before.success
    is_success = success is not None and known is not None and success.tx_id == known.tx_id
    if known is not None and (known.assigned or (is_success and known.kind == "matched")):
        return before
    watch = None if seen.binding is None else find_watch(tx, seen.binding, seen.asset)
    if watch is not None:
        return find_payment(tx, watch.payment_id)
    return before


def _judge(
    tx: Tx,
    payment: Payment | None,
    shown: Seen | Sighting,
    known: Sighting | None,
    held: bool | None = None,
) -> rule.Classified:
    """What a transfer is now; `held` as of `core.transfer.Claim`, None: as it is stored."""
    sighting = rule.Sighting(shown.asset, shown.value, shown.recipient, shown.block_time_s * 1000)
    if payment is None:
        return rule.classify(sighting, None)
    claim = rule.Claim(
        status=payment.status,
        quotes=quotes_in(tx, payment.id, shown.asset),
        committed=committed(payment),
        held=is_held(tx, payment) if held is None else held,
        paid_by_another=_paid_by_another(tx, payment, shown),
    )
    if _has_paid(payment, shown, known) and not claim.paid_by_another and payment.status not in OVER:
        # A reorg may move it to a block whose time is outside of its quote; it was in time all the same.
        return rule.Classified("matched", "It paid in another block before.")
    return rule.classify(sighting, claim)


def _has_paid(payment: Payment, shown: Seen | Sighting, known: Sighting | None) -> bool:
    """Whether the same transfer paid the payment in another block, and no other one has since."""
    if known is None or known.kind != "matched" or known.payment_id != payment.id:
        return False
    if (known.asset, known.value, known.recipient) != (shown.asset, shown.value, shown.recipient):
        return False
    return payment.success is None or payment.success.tx_id == shown.tx_id


def _paid_by_another(tx: Tx, payment: Payment, shown: Seen | Sighting) -> bool:
    """Whether another transfer pays for it that the chain shows."""
    row = tx.execute(
        "SELECT 1 FROM transfers WHERE payment_id = ? AND kind = 'matched' AND block_hash IS NOT NULL"
        " AND (chain, tx_id, log_index) <> (?, ?, ?)",
        (payment.id, shown.chain, shown.tx_id, shown.log_index),
    ).fetchone()
    return row is not None


def _match_another(tx: Tx, payment: Payment, held: bool | None = None, since_ms: int = -1) -> bool:
    """Have the first transfer that is good enough pay for the payment, if there is one."""
    where = "payment_id = ? AND kind <> 'matched' AND block_hash IS NOT NULL AND seen_at_ms > ? ORDER BY seq"
    for sighting in _sightings(tx, where, payment.id, since_ms):
        if _judge(tx, payment, sighting, None, held).kind == "matched":
            _await(tx, sighting, "matched", "depth", sighting.block_number)
            return True
    return False


def _await(
    tx: Tx, sighting: Sighting, kind: Kind, awaits: Literal["depth"] | None, look_at: int | None
) -> None:
    """Note what a transfer is from now on, and when its chain is looked at for it."""
    tx.execute(
        "UPDATE transfers SET kind = ?, awaits = ?, look_at = ?"
        " WHERE chain = ? AND tx_id = ? AND log_index = ?",
        (kind, awaits, look_at, sighting.chain, sighting.tx_id, sighting.log_index),
    )


def _payment_of(tx: Tx, sighting: Sighting) -> Payment | None:
    return None if sighting.payment_id is None else find_payment(tx, sighting.payment_id)


def _owner(tx: Tx, seen: Seen) -> str | None:
    """Whose destination it is, by what is registered, or was when options were handed out."""
    return account_at(tx, seen.recipient) or account_watching(tx, seen.chain, seen.recipient)


def _known(tx: Tx, seen: Seen) -> Sighting | None:
    where = "chain = ? AND tx_id = ? AND log_index = ?"
    return next(iter(_sightings(tx, where, seen.chain, seen.tx_id, seen.log_index)), None)


def _store(tx: Tx, sighting: Sighting, now_ms: int) -> None:
    row = msgspec.structs.asdict(sighting) | {"value": str(sighting.value), "seen_at_ms": now_ms}
    kept = ("chain", "tx_id", "log_index", "seen_at_ms")
    tx.execute(
        f"INSERT INTO transfers ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        " ON CONFLICT (chain, tx_id, log_index) DO UPDATE SET "
        + ", ".join(f"{name} = excluded.{name}" for name in row if name not in kept),
        tuple(row.values()),
    )


def _sightings(tx: Tx, where: str, *values: str | int) -> list[Sighting]:
    rows = tx.execute(f"SELECT {_COLUMNS} FROM transfers WHERE {where}", values).fetchall()
    return [_sighting(row) for row in rows]


def _sighting(row: tuple[object, ...]) -> Sighting:
    sighting = Sighting(*row)  # type: ignore[arg-type]
    return msgspec.structs.replace(sighting, value=int(sighting.value), assigned=bool(sighting.assigned))
