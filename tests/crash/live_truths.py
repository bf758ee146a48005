"""What must be true of money on a chain after any deaths, reorgs and lies, once the nodes are well again.

Each function gives what is wrong; nothing is as it should be.

Source: DESIGN.md, "1. What payd is for"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.chains.solana.binding import reference_of
from tests.crash.aftermath import Aftermath
from tests.crash.changes import Changes, Offered
from tests.crash.destinations import Destinations
from tests.crash.onchain import NATIVE, Moved, Onchain
from tests.crash.truths import FINAL, broken

# Payments end by what is final; what is newer may still be read.
ENDED_UNPAID: Final = FINAL - {"succeeded"}


class Handed(NamedTuple):
    """What was handed out for a payment: `due` reaches the merchant. Asset and wallet in lower case."""

    asset: str
    wallet: str
    due: int
    since_ms: int
    until_ms: int


@dataclass(frozen=True)
class LiveRows:
    """What the file has of a chain, read without payd.

    Attributes:
        transfers: Rows as they are.
        quotes: Of each payment, oldest first.
        cursors: Number and hash by kind.
        blocks: Hashes by number, of the newest that were read.
    """

    transfers: list[dict[str, Any]]
    quotes: dict[str, list[Handed]]
    cursors: dict[str, tuple[int, str]]
    blocks: dict[int, str]


@dataclass(frozen=True)
class LiveAftermath:
    """What is left of a live realm.

    Attributes:
        common: What any realm leaves.
        rows: What the file has of the chain.
        onchain: What the chain shows.
        read: Hashes of blocks whose transfers a node gave, all of them.
        destinations: Where merchants are paid, and what became of that.
    """

    common: Aftermath
    rows: LiveRows
    onchain: Onchain
    read: frozenset[str]
    destinations: Destinations

    @property
    def begun(self) -> int:
        """The newest block before anything was offered: what came before it concerns nobody."""
        handed = (one.since_ms for some in self.rows.quotes.values() for one in some)
        offered_ms = min(handed, default=None)
        older = [
            number
            for number, time_s in enumerate(self.onchain.times_s)
            if offered_ms is None or time_s * 1000 < offered_ms
        ]
        return older[-1]

    def paid(self) -> dict[str, dict[str, Any]]:
        """What the last event says of each payment that has succeeded."""
        last = {row["payment_id"]: row for row in self.common.rows.events}
        found = {one: msgspec.json.decode(row["body"])["data"] for one, row in last.items()}
        return {one: data for one, data in found.items() if data["status"] == "succeeded"}

    @property
    def changes(self) -> Changes:
        """What merchants and operators have changed."""
        return self.common.ledger.changes

    def is_awaited(self, moved: Moved) -> bool:
        """Whether money came to where a merchant is paid, or was told to buyers, by when it came."""
        awaited_s = self.changes.awaited_since(moved.recipient)
        if moved.asset.endswith(NATIVE):
            awaited_s = max(awaited_s, self.changes.offered_since(moved.asset))
        return awaited_s < moved.block_time_s

    def wallets(self, payment_id: str, asset: str) -> set[str]:
        """Where a payment was handed out to be paid in an asset."""
        handed = self.rows.quotes.get(payment_id, [])
        return {one.wallet for one in handed if one.asset == asset.lower()}

    def names(self, moved: Moved) -> list[str]:
        """The payments that money may be for, by what its transaction carries."""
        ids = self.common.rows.payments
        return [one for one in ids if any(word in moved.carries for word in bindings_of(one))]

    def assigned(self, moved: Moved) -> list[str]:
        """The payment that money is for because a merchant says so."""
        return [
            row["payment_id"]
            for row in self.rows.transfers
            if row["assigned"] and (row["tx_id"], row["log_index"]) == moved.place
        ]


LiveTruth = Callable[[LiveAftermath], Sequence[Any]]


def bindings_of(payment_id: str) -> tuple[bytes, ...]:
    """What names a payment on a chain: on an EVM chain, where the end of a nonce is zeros, and on Solana."""
    return payment_tag(payment_id), authorization_nonce(payment_id), reference_of(payment_id)


def everything_that_holds_in_any_realm(left: LiveAftermath) -> Sequence[Any]:
    return list(broken(left.common).items())


def every_paid_payment_has_its_own_transfer_on_the_chain(left: LiveAftermath) -> Sequence[Any]:
    wrong = []
    for payment_id, data in left.paid().items():
        tx_id = _paid_by(data)
        due = data["processing"]["settlement_amount"]
        pays = [
            one
            for one in left.onchain.moved.values()
            if one.place[0] == tx_id
            and f"caip19/{one.asset}".lower() == due["unit"].lower()
            and one.value >= int(due["value"])
            and one.recipient in left.wallets(payment_id, one.asset)
            and payment_id in (*left.names(one), *left.assigned(one))
        ]
        if not pays:
            wrong.append((payment_id, data["success"], due))
    return wrong


def _paid_by(data: dict[str, Any]) -> str:
    """A reorg may leave the money to another transaction than the one by which a payment had succeeded."""
    tx_id: str = (data["settled"] or data["success"])["tx_id"]
    return tx_id


def no_transfer_pays_twice(left: LiveAftermath) -> Sequence[Any]:
    used = Counter(_paid_by(data) for data in left.paid().values())
    there = Counter(tx_id for tx_id, _ in left.onchain.moved)
    return [tx_id for tx_id, times in used.items() if times > there[tx_id]]


def no_payment_is_paid_by_two_matched_transfers(left: LiveAftermath) -> Sequence[Any]:
    matched = [row for row in _shown(left) if row["kind"] == "matched"]
    times = Counter(row["payment_id"] for row in matched)
    return [one for one, count in times.items() if count != 1]


def every_transfer_to_the_merchant_is_stored_as_the_chain_shows_it(left: LiveAftermath) -> Sequence[Any]:
    stored = {(row["tx_id"], row["log_index"]): row for row in left.rows.transfers}
    newest = left.rows.cursors["head"][0]
    wrong = []
    for place, one in left.onchain.moved.items():
        if not left.begun < one.block_number <= newest or not left.is_awaited(one):
            continue
        row = stored.get(place)
        said = None if row is None else (*_what(row), row["sender"], row["block_hash"])
        if said != (one.asset, one.value, one.recipient, one.sender, one.block_hash):
            wrong.append((one, row))
    return wrong


def _what(row: dict[str, Any]) -> tuple[str, int, str]:
    """Of a stored transfer: its asset, its value, and whom it paid."""
    return row["asset"].lower(), int(row["value"]), row["recipient"].rpartition(":")[2].lower()


def every_transfer_that_names_a_payment_is_stored_as_the_chain_shows_it(
    left: LiveAftermath,
) -> Sequence[Any]:
    """On a chain whose transactions are listed by account, as far as that was read."""
    stored = {(row["tx_id"], row["log_index"]): row for row in _shown(left)}
    newest = left.rows.cursors["final"][0]
    wrong = []
    for place, one in left.onchain.moved.items():
        awaited_s = left.changes.awaited_since(one.recipient, one.asset)
        if one.block_number > newest or not one.is_listed or awaited_s >= one.block_time_s:
            continue
        if not left.names(one):
            continue
        row = stored.get(place)
        said = None if row is None else (*_what(row), row["block_number"])
        if said != (one.asset, one.value, one.recipient, one.block_number):
            wrong.append((one, row))
    return wrong


def what_is_stored_as_shown_by_the_chain_and_pays_is_on_it(left: LiveAftermath) -> Sequence[Any]:
    return [
        row
        for row in _shown(left)
        if row["kind"] == "matched" and (row["tx_id"], row["log_index"]) not in left.onchain.moved
    ]


def a_payment_that_was_paid_in_time_has_succeeded(left: LiveAftermath) -> Sequence[Any]:
    """Unless somebody cancelled it before that was found, or it had ended before the money was there."""
    wrong = []
    ended_ms = {row["payment_id"]: row["created_at_ms"] for row in left.common.rows.events}
    for one in left.onchain.moved.values():
        names = left.names(one)
        for payment_id in names if len(names) == 1 else ():
            row = left.common.rows.payments[payment_id]
            at_ms = one.block_time_s * 1000
            if ended_ms[payment_id] < one.there_s * 1000:
                continue
            in_time = any(
                (handed.asset, handed.wallet, handed.due) == (one.asset, one.recipient, one.value)
                and handed.since_ms <= at_ms <= handed.until_ms
                for handed in left.rows.quotes.get(payment_id, [])
            )
            if in_time and row["status"] not in {"succeeded", "cancelled"}:
                wrong.append((payment_id, row["status"], one))
    return wrong


def the_chain_was_read_block_by_block_to_where_the_cursors_are(left: LiveAftermath) -> Sequence[Any]:
    hashes = left.onchain.hashes
    wrong: list[Any] = [
        (kind, number) for kind, (number, said) in left.rows.cursors.items() if hashes[number] != said
    ]
    wrong += [number for number, said in left.rows.blocks.items() if hashes[number] != said]
    final = left.rows.cursors["final"][0]
    return [
        *wrong,
        *(number for number in range(left.begun + 1, final + 1) if hashes[number] not in left.read),
    ]


def nobody_is_offered_what_a_merchant_had_changed_before(left: LiveAftermath) -> Sequence[Any]:
    """What is offered stays as it was at first; what was removed is not offered again for that payment."""
    wrong = []
    firsts: dict[tuple[str, str], Offered] = {}
    for one in left.changes.offers:
        first = firsts.setdefault((one.payment_id, one.asset), one)
        course = left.changes.course(one.merchant_id, one.asset)
        is_open = True in left.changes.open(one.merchant_id).possible(one.asked_s, one.told_s)
        possible = course.possible(first.asked_s, first.told_s)
        is_right = bool(possible - {None}) if not one.wallet else one.wallet in possible
        if not is_right or not is_open or course.was(None, first.told_s, one.asked_s):
            wrong.append((one, first, course))
    return wrong


def what_buyers_were_offered_is_what_was_handed_out(left: LiveAftermath) -> Sequence[Any]:
    wrong = []
    for one in left.changes.offers:
        handed = left.wallets(one.payment_id, one.asset)
        if len(handed) != 1 or not handed >= {one.wallet} - {""}:
            wrong.append((one, handed))
    return wrong


def the_audit_of_each_destination_leads_to_where_the_money_goes(left: LiveAftermath) -> Sequence[Any]:
    """Step by step: what was held back is made once, when it is due, and what was taken back is not."""
    return [*left.destinations.astray()]


def the_operator_is_told_once_of_all_that_becomes_of_a_destination(left: LiveAftermath) -> Sequence[Any]:
    return [*left.destinations.untold()]


def no_window_closes_while_no_chain_is_read(left: LiveAftermath) -> Sequence[Any]:
    return left.changes.expired_unread


def nothing_happens_to_a_payment_after_it_is_settled(left: LiveAftermath) -> Sequence[Any]:
    types: dict[str, list[str]] = {}
    for row in left.common.rows.events:
        types.setdefault(row["payment_id"], []).append(row["type"])
    return [some for some in types.values() if "payment.settled" in some[:-1]]


def _shown(left: LiveAftermath) -> list[dict[str, Any]]:
    return [row for row in left.rows.transfers if row["block_hash"] is not None]


LIVE_TRUTHS: Final[tuple[LiveTruth, ...]] = (
    everything_that_holds_in_any_realm,
    every_paid_payment_has_its_own_transfer_on_the_chain,
    no_transfer_pays_twice,
    no_payment_is_paid_by_two_matched_transfers,
    every_transfer_to_the_merchant_is_stored_as_the_chain_shows_it,
    what_is_stored_as_shown_by_the_chain_and_pays_is_on_it,
    a_payment_that_was_paid_in_time_has_succeeded,
    the_chain_was_read_block_by_block_to_where_the_cursors_are,
    nobody_is_offered_what_a_merchant_had_changed_before,
    what_buyers_were_offered_is_what_was_handed_out,
    the_audit_of_each_destination_leads_to_where_the_money_goes,
    the_operator_is_told_once_of_all_that_becomes_of_a_destination,
    no_window_closes_while_no_chain_is_read,
    nothing_happens_to_a_payment_after_it_is_settled,
)


SLOT_TRUTHS: Final[tuple[LiveTruth, ...]] = (
    everything_that_holds_in_any_realm,
    every_paid_payment_has_its_own_transfer_on_the_chain,
    no_transfer_pays_twice,
    no_payment_is_paid_by_two_matched_transfers,
    every_transfer_that_names_a_payment_is_stored_as_the_chain_shows_it,
    what_is_stored_as_shown_by_the_chain_and_pays_is_on_it,
    a_payment_that_was_paid_in_time_has_succeeded,
    nobody_is_offered_what_a_merchant_had_changed_before,
    what_buyers_were_offered_is_what_was_handed_out,
    the_audit_of_each_destination_leads_to_where_the_money_goes,
    the_operator_is_told_once_of_all_that_becomes_of_a_destination,
    no_window_closes_while_no_chain_is_read,
    nothing_happens_to_a_payment_after_it_is_settled,
)
"""On Solana."""


def broken_live(left: LiveAftermath, truths: Sequence[LiveTruth] = LIVE_TRUTHS) -> dict[str, Sequence[Any]]:
    """The truths that do not hold, by name, with what is wrong."""
    return {truth.__name__: wrong for truth in truths if (wrong := truth(left))}


def read_live_rows(path: Path) -> LiveRows:
    """All of a live realm that these truths compare with the chain."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    try:
        quotes: dict[str, list[Handed]] = {}
        for payment_id, asset, to, due, *when in db.execute(
            "SELECT o.payment_id, o.asset_key, q.destination, coalesce(q.due, q.amount), q.valid_from_ms,"
            " q.valid_until_ms FROM quotes q JOIN options o ON o.id = q.option_id ORDER BY q.seq"
        ):
            wallet = to.rpartition(":")[2].lower()
            quotes.setdefault(payment_id, []).append(Handed(asset.lower(), wallet, int(due), *when))
        return LiveRows(
            transfers=[dict(row) for row in db.execute("SELECT * FROM transfers ORDER BY seq")],
            quotes=quotes,
            cursors={
                row["kind"]: (row["number"], row["hash"]) for row in db.execute("SELECT * FROM chain_cursors")
            },
            blocks={row["number"]: row["hash"] for row in db.execute("SELECT * FROM chain_blocks")},
        )
    finally:
        db.close()
