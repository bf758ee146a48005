"""A realm that has been in use for months: payments with all that belongs to them, written in bulk.

Rows are made by the store's own functions. While they are, nothing is synced and only those indexes are there
that the functions look things up by.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from payd.core.period import DAY_MS
from payd.store.db import Tx
from payd.store.merchants import Merchant, insert_merchant
from payd.store.settlements import Settlement, insert_settlement
from tests.crash.process import Furnished
from tests.ledger import CHAIN, USDC, sell

MERCHANTS: Final = 5
BUYERS: Final = 5000
DAYS: Final = 80
LOG_DAYS: Final = 13
"""As old as the log of requests and the rest may be before they are pruned."""
ENDPOINT: Final = "ep_1"
SHOP: Final = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
RARE_ASSET: Final = "eip155:1/slip44:60"
# Of a hundred payments.
STATES: Final = (
    ("settled",) * 58
    + ("expired",) * 25
    + ("cancelled",) * 8
    + ("failed_after",) * 5
    + ("processing",) * 2
    + ("requires_action",) * 2
)
REFUSAL: Final = b'{"code":"invalid_params","message":"value must be more than 0."}'
CACHE_KIB: Final = 400_000

# What is looked up while rows are made.
_NEEDED: Final = frozenset({"delivery_of_event", "endpoint_of_account"})


def fill(path: Path, payments: int, *, account_id: str, now_ms: int) -> None:
    """Give an account of a realm that is up to date so many payments, up to now."""
    with writing_in_bulk(path) as tx:
        sell_many(tx, payments, account_id=account_id, now_ms=now_ms)


@contextmanager
def writing_in_bulk(path: Path) -> Iterator[Tx]:
    """One transaction that nobody else sees the half of, and that no kill survives."""
    with closing(sqlite3.connect(path, isolation_level=None)) as tx:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{CACHE_KIB}"):
            tx.execute(f"PRAGMA {pragma}")
        tx.execute("BEGIN")
        indexes = _put_away_indexes(tx)
        yield tx
        for index in indexes:
            tx.execute(index)
        tx.execute("COMMIT")
        tx.execute("PRAGMA journal_mode = WAL")


def sell_many(tx: Tx, payments: int, *, account_id: str, now_ms: int, older: int = 0) -> None:
    """So many payments with all that belongs to them, over `DAYS` up to now.

    Args:
        tx: Of `writing_in_bulk`.
        payments: How many.
        account_id: Whose.
        now_ms: Unix milliseconds.
        older: How many there are already; these are numbered after them.
    """
    dice = random.Random(7)
    _open_shop(tx, account_id)
    for number in range(1, payments + 1):
        sale = _sale(older + number, account_id, created_at_ms(number, payments, now_ms), dice)
        sell(tx, dice.choice(STATES), **sale)
    _follow_up(tx, account_id, now_ms, older)


def account_of(at: Furnished) -> str:
    """The account of a data directory that has one."""
    with closing(sqlite3.connect(at.folder / "data" / "test.db")) as tx:
        (account_id,) = tx.execute("SELECT account_id FROM merchants").fetchone()
    return str(account_id)


def created_at_ms(number: int, payments: int, now_ms: int) -> int:
    """When the payment of this number was created."""
    return now_ms - DAYS * DAY_MS + number * DAYS * DAY_MS // (payments + 1)


def seller(number: int) -> str:
    """The id of the merchant of this number."""
    return f"mrch_{number:036d}"


def payment_id(number: int) -> str:
    """The id of the payment of this number."""
    return f"pay_t{number:036d}"


def _put_away_indexes(tx: Tx) -> list[str]:
    """Drop all indexes but those that are needed; what makes them again."""
    found = tx.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    ).fetchall()
    dropped = [(name, sql) for name, sql in found if name not in _NEEDED]
    for name, _ in dropped:
        tx.execute(f"DROP INDEX {name}")
    return [sql for _, sql in dropped]


def _open_shop(tx: Tx, account_id: str) -> None:
    for number in range(MERCHANTS):
        merchant_id = seller(number)
        insert_merchant(
            tx, Merchant(merchant_id, account_id, f"Shop {number}", "a@b.test", None, "active", number)
        )
        for asset, chain in ((USDC, CHAIN), (RARE_ASSET, "eip155:1")):
            settlement = Settlement(
                f"crypto_{number}{chain}", merchant_id, asset, asset, f"{chain}:{SHOP}", number
            )
            insert_settlement(tx, settlement)
    tx.execute(
        "INSERT INTO endpoints (id, account_id, url, events, state, created_at_ms, updated_at_ms) VALUES"
        " (?, ?, 'https://a.test', 'payment.created payment.succeeded payment.failed', 'enabled', 0, 0)",
        (ENDPOINT, account_id),
    )


def _sale(number: int, account_id: str, at_ms: int, dice: random.Random) -> dict[str, Any]:
    return {
        "number": number,
        "id": payment_id(number),
        "account_id": account_id,
        "at_ms": at_ms,
        "took_ms": dice.randrange(2000, 600_000),
        "asset": RARE_ASSET if dice.random() < 0.001 else USDC,
        "buyer": f"{CHAIN}:0x{dice.randrange(BUYERS):040x}",
        "merchant_id": seller(dice.randrange(MERCHANTS)),
        "reference_id": f"ORDER-{number}",
        "currency": dice.choice(["USD", "EUR"]),
        "value": dice.randrange(100, 100_000),
        "reason": dice.choice(["reverted", "taken back"]),
    }


def _follow_up(tx: Tx, account_id: str, now_ms: int, older: int) -> None:
    """Deliveries that were made, or given up; options that were handed out; transfers; requests; acts."""
    tx.execute(
        "UPDATE deliveries SET state = iif(seq % 500 = 0, 'failed', 'succeeded'), next_at_ms = NULL,"
        " last_status = iif(seq % 500 = 0, 500, 200)"
    )
    tx.execute(
        "INSERT INTO attempts (delivery_id, n, trigger, at_ms, status, error_class, duration_ms, body)"
        " SELECT id, 1, 'auto', created_at_ms + 5, last_status, iif(state = 'failed', 'http_status', NULL),"
        " 80, x'6f6b' FROM deliveries"
    )
    tx.execute(
        "INSERT INTO options (id, payment_id, asset, asset_key, account, account_key)"
        " SELECT 'opt_' || id, id, :asset, :asset, :buyer, :buyer FROM payments WHERE seq > :older",
        {"asset": USDC, "buyer": f"{CHAIN}:0x1", "older": older},
    )
    tx.execute(
        "INSERT INTO quotes (option_id, payment_id, amount, destination, actions, valid_from_ms,"
        " valid_until_ms) SELECT 'opt_' || id, id, '5', 'x', x'5b5d', created_at_ms + 9, created_at_ms + 99"
        " FROM payments WHERE seq > ?",
        (older,),
    )
    tx.execute(
        "INSERT INTO transfers (account_id, payment_id, chain, tx_id, log_index, asset, value, sender,"
        " recipient, kind, seen_at_ms)"
        " SELECT :account, iif(seq % 300 = 0, NULL, id), :chain, tx_id || iif(seq % 300 = 0, 'ff', ''), 0,"
        " asset, '1000000', :chain || ':' || buyer_address, :chain || ':' || :shop,"
        " iif(seq % 300 = 0, 'unmatched', 'matched'), created_at_ms + 900 FROM payments"
        " WHERE tx_id IS NOT NULL AND seq > :older",
        {"account": account_id, "chain": CHAIN, "shop": SHOP, "older": older},
    )
    tx.execute(
        "INSERT INTO api_log (at_ms, account_id, actor, request_id, method, route, subject, status, took_ms,"
        " error) SELECT :start + (seq - :older) * :span / (SELECT max(seq) - :older FROM payments),"
        " account_id, 'key_' || seq % 3, 'req_' || id, 'POST', '/v1/payments', '',"
        " iif(seq % 50 = 0, 400, 201), 5, iif(seq % 50 = 0, :error, NULL) FROM payments WHERE seq > :older",
        {
            "start": now_ms - LOG_DAYS * DAY_MS,
            "span": LOG_DAYS * DAY_MS,
            "error": REFUSAL,
            "older": older,
        },
    )
    tx.execute(
        "INSERT INTO audit (at_ms, account_id, actor, act, subject, details)"
        " SELECT created_at_ms, account_id, 'key_1', 'payment.cancel', id, '{}' FROM payments"
        " WHERE status = 'cancelled' AND seq > ?",
        (older,),
    )
