"""Options, their quotes, frozen routes, and hashes that wallets told."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from payd.core.caip import canonical_account, parse_account, parse_asset
from payd.core.errors import RateLimited
from payd.core.option import OPTIONS_STORED_MAX, QUOTES_VALID_MAX, Action, Offer, Quote
from payd.store.watches import Watch, insert_watches

Tx: TypeAlias = sqlite3.Connection

# Asking again reuses a fresh quote, so only a wallet that asks for days gets near.
QUOTES_STORED_MAX: Final = 2000

# A quote with less than this share of a new one's life left is not handed out again.
REUSE_SHARE: Final = 2

# Hashes of refused confirms, an option: a wallet tells one or two, and may retry. All options that were never
# handed out count as one, so that whoever has only the link cannot take the room of a buyer's hashes.
HINTS_STORED_MAX: Final = 16
HINTS_UNKNOWN_MAX: Final = 8

_encode_actions: Final = msgspec.json.Encoder().encode
_decode_actions: Final = msgspec.json.Decoder(tuple[Action, ...]).decode


class Route(msgspec.Struct, frozen=True):
    """Where a payment's money in one asset goes. `asset` as the merchant wrote it, `asset_key` canonical."""

    asset: str
    asset_key: str
    settlement_id: str
    destination: str


class _Room(msgspec.Struct):
    """How many more options and quotes a payment may have."""

    options: int
    quotes: int


def routes_of(tx: Tx, payment_id: str, merchant_id: str) -> list[Route]:
    """What a payment can be paid in now, in the order of the merchant's settlements.

    A route is frozen once it was handed out: its destination stays when the merchant changes it, and it is
    gone for this payment when the merchant removes its settlement, also when the asset is registered again.
    A merchant that is deleted or not active takes nothing.
    """
    rows = tx.execute(
        "SELECT s.asset, s.asset_key, s.id, coalesce(r.destination, s.destination) FROM merchants m"
        " JOIN settlements s ON s.merchant_id = m.id"
        " LEFT JOIN routes r ON r.payment_id = ? AND r.asset_key = s.asset_key"
        " WHERE m.id = ? AND m.status = 'active' AND m.deleted_at_ms IS NULL"
        " AND (r.settlement_id IS NULL OR r.settlement_id = s.id) ORDER BY s.rowid",
        (payment_id, merchant_id),
    )
    return [Route(*row) for row in rows]


def hand_out(
    tx: Tx, payment_id: str, offers: Sequence[tuple[Route, Offer, str]], now_ms: int, window_end_ms: int
) -> list[Quote]:
    """Store that offers are handed to a wallet, each with the id that its option takes if it is a new one.

    What their transfers will carry is watched for from here on.

    The option's id is the same for the same (payment, asset, account), so asking again does not kill what a
    wallet holds. A valid quote that says the same and lasts long enough is handed out again; so is the newest
    one of an option that has as many as it may have.

    Returns:
        A quote for each offer, without those that the payment has no room for.

    Raises:
        RateLimited: There is room for none.
    """
    room = _room(tx, payment_id)
    found = [_hand_out(tx, room, payment_id, offer, now_ms) for offer in offers]
    for (route, offer, _), handed in zip(offers, found, strict=True):
        if handed is not None:
            insert_watches(tx, _watches(payment_id, route, offer, window_end_ms))
    quotes = [quote for quote in found if quote is not None]
    if offers and not quotes:
        raise RateLimited(
            f"This payment was offered to {OPTIONS_STORED_MAX} accounts, which is the most, or too often.",
            details={"retryAfterS": 60},
        )
    return quotes


def hand_out_resolved(tx: Tx, quote: Quote) -> None:
    """Store that a wallet is handed an option with its build action resolved, unless it was before.

    Raises:
        RateLimited: The option or the payment has as many quotes as it may have.
    """
    handed = _append(tx, _room(tx, quote.payment_id), quote, quote.valid_until_ms)
    if handed is None or not handed.says_the_same(quote):
        raise RateLimited("Too many quotes were asked for this payment.", details={"retryAfterS": 60})


def quotes_of(tx: Tx, payment_id: str, option_id: str, now_ms: int = 0) -> list[Quote]:
    """The hand-outs of an option of this payment that are valid now, newest first.

    Of those that say the same, the newest; bounded, because so many can be valid at once. When one was handed
    out does not matter: the wall clock may have stepped back since.
    """
    rows = tx.execute(
        "SELECT o.id, o.payment_id, o.asset, o.account, q.amount, q.destination, q.actions, q.valid_from_ms,"
        " q.valid_until_ms, q.due, max(q.seq) FROM options o JOIN quotes q ON q.option_id = o.id"
        " WHERE o.id = ? AND o.payment_id = ? AND q.valid_until_ms >= ?"
        " GROUP BY q.amount, q.destination, q.actions ORDER BY max(q.seq) DESC LIMIT ?",
        (option_id, payment_id, now_ms, 2 * QUOTES_VALID_MAX),
    )
    return [_quote(row) for row in rows]


def quotes_in(tx: Tx, payment_id: str, asset_key: str) -> list[Quote]:
    """Every hand-out of the payment in an asset, valid or not, newest first; `QUOTES_STORED_MAX` at most."""
    rows = tx.execute(
        "SELECT o.id, o.payment_id, o.asset, o.account, q.amount, q.destination, q.actions, q.valid_from_ms,"
        " q.valid_until_ms, q.due, q.seq FROM options o JOIN quotes q ON q.option_id = o.id"
        " WHERE o.payment_id = ? AND o.asset_key = ? ORDER BY q.seq DESC",
        (payment_id, asset_key),
    )
    return [_quote(row) for row in rows]


def quotes_for(tx: Tx, payment_id: str, asset_key: str, account_key: str, now_ms: int) -> list[Quote]:
    """The hand-outs to an account in an asset that are valid now, newest first; keys are canonical."""
    option_id = _option_id(tx, payment_id, asset_key, account_key)
    return [] if option_id is None else quotes_of(tx, payment_id, option_id, now_ms)


def asset_key_of(tx: Tx, payment_id: str, option_id: str) -> str | None:
    """The canonical asset of an option; None when it was not handed out for this payment."""
    row = tx.execute(
        "SELECT asset_key FROM options WHERE id = ? AND payment_id = ?", (option_id, payment_id)
    ).fetchone()
    return None if row is None else str(row[0])


def account_of(tx: Tx, payment_id: str, option_id: str) -> str | None:
    """The buyer's account of an option, CAIP-10; None when it was not handed out for this payment."""
    row = tx.execute(
        "SELECT account_key FROM options WHERE id = ? AND payment_id = ?", (option_id, payment_id)
    ).fetchone()
    return None if row is None else str(row[0])


def accounts_offered(tx: Tx, payment_id: str) -> frozenset[str]:
    """Every account that an option of the payment was handed out for, canonical CAIP-10."""
    rows = tx.execute("SELECT account_key FROM options WHERE payment_id = ?", (payment_id,))
    return frozenset(str(account) for (account,) in rows)


def keep_hints(tx: Tx, payment_id: str, option_id: str, hashes: Sequence[str], now_ms: int) -> None:
    """Keep hashes that a wallet told in a confirm that was refused, for matching. Bounded an option."""
    known = asset_key_of(tx, payment_id, option_id) is not None
    kept_under, hints_max = (option_id, HINTS_STORED_MAX) if known else ("", HINTS_UNKNOWN_MAX)
    (count,) = tx.execute(
        "SELECT count(*) FROM hints WHERE payment_id = ? AND option_id = ?", (payment_id, kept_under)
    ).fetchone()
    insert_hints(tx, payment_id, kept_under, hashes[: max(0, hints_max - count)], now_ms)


def insert_hints(tx: Tx, payment_id: str, option_id: str, hashes: Sequence[str], now_ms: int) -> None:
    """Keep the hashes of a confirm that moves the payment: it happens once, so that they need no bound."""
    for told in hashes:
        tx.execute(
            "INSERT INTO hints (payment_id, option_id, hash, told_at_ms) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (payment_id, option_id, told, now_ms),
        )


def told_before(tx: Tx, payment_id: str, hashes: Sequence[str]) -> bool:
    """Whether a wallet told each of these hashes before, for an option of the payment."""
    rows = tx.execute("SELECT hash FROM hints WHERE payment_id = ? AND option_id <> ''", (payment_id,))
    return {str(row[0]) for row in rows}.issuperset(hashes)


def _hand_out(
    tx: Tx, room: _Room, payment_id: str, offered: tuple[Route, Offer, str], now_ms: int
) -> Quote | None:
    route, offer, new_id = offered
    account_key = canonical_account(parse_account(offer.account))
    known_id = _option_id(tx, payment_id, route.asset_key, account_key)
    if known_id is None:
        if min(room.options, room.quotes) <= 0:
            return None
        _insert_option(tx, payment_id, route, offer, new_id, account_key)
        room.options -= 1
    quote = Quote(
        option_id=known_id or new_id,
        payment_id=payment_id,
        asset=offer.asset,
        account=offer.account,
        amount=offer.amount,
        destination=route.destination,
        actions=offer.actions,
        valid_from_ms=now_ms,
        valid_until_ms=offer.valid_until_ms,
        due=offer.due,
    )
    handed = _append(tx, room, quote, now_ms + (offer.valid_until_ms - now_ms) // REUSE_SHARE)
    # The wallet finds its account by the text that it sent.
    return None if handed is None else msgspec.structs.replace(handed, account=offer.account)


def _option_id(tx: Tx, payment_id: str, asset_key: str, account_key: str) -> str | None:
    row = tx.execute(
        "SELECT id FROM options WHERE payment_id = ? AND asset_key = ? AND account_key = ?",
        (payment_id, asset_key, account_key),
    ).fetchone()
    return None if row is None else str(row[0])


def _watches(payment_id: str, route: Route, offer: Offer, until_ms: int) -> list[Watch]:
    chain = str(parse_asset(route.asset_key).chain)
    destination = canonical_account(parse_account(route.destination))
    return [
        Watch(binding, route.asset_key, payment_id, chain, destination, until_ms)
        for binding in offer.bindings
    ]


def _insert_option(
    tx: Tx, payment_id: str, route: Route, offer: Offer, option_id: str, account_key: str
) -> None:
    tx.execute(
        "INSERT INTO routes (payment_id, asset_key, settlement_id, destination) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (payment_id, route.asset_key, route.settlement_id, route.destination),
    )
    tx.execute(
        "INSERT INTO options (id, payment_id, asset, asset_key, account, account_key)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (option_id, payment_id, offer.asset, route.asset_key, offer.account, account_key),
    )


def _room(tx: Tx, payment_id: str) -> _Room:
    options, quotes = tx.execute(
        "SELECT count(DISTINCT o.id), count(q.seq) FROM options o LEFT JOIN quotes q ON q.option_id = o.id"
        " WHERE o.payment_id = ?",
        (payment_id,),
    ).fetchone()
    return _Room(OPTIONS_STORED_MAX - options, QUOTES_STORED_MAX - quotes)


def _append(tx: Tx, room: _Room, quote: Quote, until_ms: int) -> Quote | None:
    """Store `quote`, unless a valid one says the same and lasts until then, or there is no room for it.

    Returns what is handed out instead: that one, or the newest valid one; None when there is none.
    """
    valid = quotes_of(tx, quote.payment_id, quote.option_id, quote.valid_from_ms)
    # Those with a build action are counted alone: they must not take the room of what they resolve into.
    valid = [one for one in valid if one.resolved is quote.resolved]
    same = next((one for one in valid if one.says_the_same(quote)), None)
    if same is not None and same.valid_until_ms >= until_ms:
        return same
    if room.quotes <= 0 or (same is None and len(valid) >= QUOTES_VALID_MAX):
        return same or next(iter(valid), None)
    tx.execute(
        "INSERT INTO quotes (option_id, payment_id, amount, destination, actions, valid_from_ms,"
        " valid_until_ms, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            quote.option_id,
            quote.payment_id,
            str(quote.amount),
            quote.destination,
            _encode_actions(quote.actions),
            quote.valid_from_ms,
            quote.valid_until_ms,
            None if quote.due is None else str(quote.due),
        ),
    )
    room.quotes -= 1
    return quote


def _quote(row: tuple[str, str, str, str, str, str, bytes, int, int, str | None, int]) -> Quote:
    option_id, payment_id, asset, account, amount, destination, actions, from_ms, until_ms, due, _ = row
    return Quote(
        option_id=option_id,
        payment_id=payment_id,
        asset=asset,
        account=account,
        amount=int(amount),
        destination=destination,
        actions=_decode_actions(actions),
        valid_from_ms=from_ms,
        valid_until_ms=until_ms,
        due=None if due is None else int(due),
    )
