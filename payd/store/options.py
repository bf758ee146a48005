"""Options, their quotes, frozen destinations, and hashes that wallets told."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from payd.core.errors import RateLimited
from payd.core.option import OPTIONS_STORED_MAX, Action, Offer, Quote

Tx: TypeAlias = sqlite3.Connection

# Asking again reuses a fresh quote, so only a wallet that asks for days gets near.
QUOTES_STORED_MAX: Final = 2000
HINTS_STORED_MAX: Final = 64

# A quote with less than this share of its life left is not handed out again.
REUSE_SHARE: Final = 2

_encode_actions: Final = msgspec.json.Encoder().encode
_decode_actions: Final = msgspec.json.Decoder(tuple[Action, ...]).decode

_QUOTE: Final = (
    "SELECT o.id, o.payment_id, o.asset, o.account, q.amount, q.destination, q.actions, q.valid_from_ms,"
    " q.valid_until_ms FROM options o JOIN quotes q ON q.option_id = o.id"
)


def freeze_destination(tx: Tx, payment_id: str, asset_key: str, destination: str) -> str:
    """The destination of (payment, asset): the given one the first time, that same one ever after."""
    tx.execute(
        "INSERT INTO routes (payment_id, asset_key, destination) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (payment_id, asset_key, destination),
    )
    (frozen,) = tx.execute(
        "SELECT destination FROM routes WHERE payment_id = ? AND asset_key = ?", (payment_id, asset_key)
    ).fetchone()
    return str(frozen)


def frozen_destinations(tx: Tx, payment_id: str) -> dict[str, str]:
    """The frozen destinations of a payment, by canonical asset."""
    return dict(tx.execute("SELECT asset_key, destination FROM routes WHERE payment_id = ?", (payment_id,)))


def hand_out(
    tx: Tx, payment_id: str, offer: Offer, asset_key: str, destination: str, new_id: str, now_ms: int
) -> Quote:
    """Store that an offer is handed to a wallet.

    The option's id is the same for the same (payment, asset, account), so asking again does not kill what a
    wallet holds. A quote that says the same and has most of its life left is handed out again.

    Raises:
        RateLimited: The payment has as many options or quotes as it may have.
    """
    option_id = _option_id(tx, payment_id, offer, asset_key, new_id)
    latest = tx.execute(f"{_QUOTE} WHERE o.id = ? ORDER BY q.seq DESC LIMIT 1", (option_id,)).fetchone()
    if latest is not None:
        quote = _quote(latest)
        half_way_ms = quote.valid_until_ms - (quote.valid_until_ms - quote.valid_from_ms) // REUSE_SHARE
        same = (quote.amount, quote.destination, quote.actions) == (offer.amount, destination, offer.actions)
        if same and (now_ms <= half_way_ms or quote.valid_until_ms >= offer.valid_until_ms):
            return quote
    quote = Quote(
        option_id=option_id,
        payment_id=payment_id,
        asset=offer.asset,
        account=offer.account,
        amount=offer.amount,
        destination=destination,
        actions=offer.actions,
        valid_from_ms=now_ms,
        valid_until_ms=offer.valid_until_ms,
    )
    append_quote(tx, quote)
    return quote


def append_quote(tx: Tx, quote: Quote) -> None:
    """Store one more hand-out of an option.

    Raises:
        RateLimited: The payment has as many quotes as it may have.
    """
    (count,) = tx.execute(
        "SELECT count(*) FROM quotes WHERE option_id IN (SELECT id FROM options WHERE payment_id = ?)",
        (quote.payment_id,),
    ).fetchone()
    if count >= QUOTES_STORED_MAX:
        raise RateLimited("Too many quotes were asked for this payment.", details={"retryAfterS": 60})
    tx.execute(
        "INSERT INTO quotes (option_id, payment_id, amount, destination, actions, valid_from_ms,"
        " valid_until_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            quote.option_id,
            quote.payment_id,
            str(quote.amount),
            quote.destination,
            _encode_actions(quote.actions),
            quote.valid_from_ms,
            quote.valid_until_ms,
        ),
    )


def quotes_of(tx: Tx, payment_id: str, option_id: str) -> list[Quote]:
    """Every hand-out of an option of this payment, newest first; empty when there is no such option."""
    rows = tx.execute(
        f"{_QUOTE} WHERE o.id = ? AND o.payment_id = ? ORDER BY q.seq DESC", (option_id, payment_id)
    )
    return [_quote(row) for row in rows]


def asset_key_of(tx: Tx, option_id: str) -> str | None:
    """The canonical asset of an option."""
    row = tx.execute("SELECT asset_key FROM options WHERE id = ?", (option_id,)).fetchone()
    return None if row is None else str(row[0])


def keep_hints(tx: Tx, payment_id: str, hashes: Sequence[str], now_ms: int) -> None:
    """Keep hashes that a wallet told in a confirm that was refused, for matching. Bounded a payment."""
    (count,) = tx.execute("SELECT count(*) FROM hints WHERE payment_id = ?", (payment_id,)).fetchone()
    for told in hashes[: max(0, HINTS_STORED_MAX - count)]:
        tx.execute(
            "INSERT INTO hints (payment_id, hash, told_at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (payment_id, told, now_ms),
        )


def _option_id(tx: Tx, payment_id: str, offer: Offer, asset_key: str, new_id: str) -> str:
    row = tx.execute(
        "SELECT id FROM options WHERE payment_id = ? AND asset_key = ? AND account = ?",
        (payment_id, asset_key, offer.account),
    ).fetchone()
    if row is not None:
        return str(row[0])
    (count,) = tx.execute("SELECT count(*) FROM options WHERE payment_id = ?", (payment_id,)).fetchone()
    if count >= OPTIONS_STORED_MAX:
        raise RateLimited(
            f"This payment has been offered to {OPTIONS_STORED_MAX} accounts, which is the most.",
            details={"retryAfterS": 60},
        )
    tx.execute(
        "INSERT INTO options (id, payment_id, asset, asset_key, account) VALUES (?, ?, ?, ?, ?)",
        (new_id, payment_id, offer.asset, asset_key, offer.account),
    )
    return new_id


def _quote(row: tuple[str, str, str, str, str, str, bytes, int, int]) -> Quote:
    option_id, payment_id, asset, account, amount, destination, actions, valid_from_ms, valid_until_ms = row
    return Quote(
        option_id=option_id,
        payment_id=payment_id,
        asset=asset,
        account=account,
        amount=int(amount),
        destination=destination,
        actions=_decode_actions(actions),
        valid_from_ms=valid_from_ms,
        valid_until_ms=valid_until_ms,
    )
