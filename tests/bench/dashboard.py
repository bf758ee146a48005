"""What the dashboard reads among many payments: lists, searches, one payment, the home page's numbers.

Each question is asked through the store as a page asks it, and the very statements that this ran are run
again by SQLite alone, in turn. Neither has a browser or HTTP in it.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from payd.core.period import DAY_MS, last_days
from payd.core.search import read_search
from payd.core.tally import numbers_by_day
from payd.store.api_log import LogFilter, list_logged
from payd.store.attention import account_matters
from payd.store.bridge import bridge
from payd.store.db import Database, Tx, open_database
from payd.store.ledger import count_new, newest_seq, payments_by_id
from payd.store.merchants import Merchant, insert_merchant
from payd.store.migrate import bring_up_to_date
from payd.store.payments import PaymentFilter, list_payments
from payd.store.search import find_anything
from payd.store.tallies import count_created, count_open, read_tallies
from payd.store.timeline import read_timeline
from tests.ledger import CHAIN, START_MS, USDC, sell

ACCOUNT: Final = "acct_1"
MERCHANTS: Final = 5
BUYERS: Final = 5000
DAYS: Final = 90
PAGE: Final = 50
RARE_ASSET: Final = "eip155:1/slip44:60"
NOW_MS: Final = START_MS + DAYS * DAY_MS
# Of a hundred payments.
STATES: Final = (
    ("settled",) * 60 + ("expired",) * 25 + ("cancelled",) * 8 + ("failed_after",) * 5 + ("processing",) * 2
)

Ask = Callable[[Tx], object]
Line = tuple[str, ...]

HEADER: Final = ("what", "at", "payd p50 / p99 ms", "SQL alone p50 / p99 ms", "payd : SQL", "goal")
NOTES: Final = """\
- Each question is asked through the store, on its thread for lists, and decoded as the page takes it; the
  statements that it ran are then run by SQLite alone on one connection, rows fetched and thrown away.
- The payments are of one account over 90 days, with their events, deliveries, attempts and quotes."""


@dataclass(frozen=True)
class Browse:
    """How much of it."""

    payments: tuple[int, ...] = (1000, 100_000)
    asks: int = 200


def fill(path: Path, payments: int) -> None:
    """A realm with so many payments, and what belongs to them."""
    bring_up_to_date(path, "realm")
    dice = random.Random(7)
    with closing(sqlite3.connect(path, isolation_level=None)) as tx:
        tx.execute("PRAGMA journal_mode = OFF")
        tx.execute("PRAGMA synchronous = OFF")
        tx.execute("BEGIN")
        for number in range(MERCHANTS):
            name = f"Shop {number}"
            insert_merchant(tx, Merchant(f"mrch_{number}", ACCOUNT, name, "a@b.test", None, "active", number))
        tx.execute(
            "INSERT INTO endpoints (id, account_id, url, events, state, created_at_ms, updated_at_ms) VALUES"
            " ('ep_1', ?, 'https://a.test', 'payment.created payment.succeeded', 'enabled', 0, 0)",
            (ACCOUNT,),
        )
        for number in range(1, payments + 1):
            sell(tx, dice.choice(STATES), **_sale(number, payments, dice))
        _follow_up(tx)
        tx.execute("COMMIT")


def _sale(number: int, payments: int, dice: random.Random) -> dict[str, Any]:
    return {
        "number": number,
        "at_ms": START_MS + number * DAYS * DAY_MS // (payments + 1),
        "took_ms": dice.randrange(2000, 600_000),
        "asset": RARE_ASSET if dice.random() < 0.001 else USDC,
        "buyer": f"{CHAIN}:0x{dice.randrange(BUYERS):040x}",
        "merchant_id": f"mrch_{dice.randrange(MERCHANTS)}",
        "reference_id": f"ORDER-{number}",
        "currency": dice.choice(["USD", "EUR"]),
        "value": dice.randrange(100, 100_000),
        "reason": dice.choice(["reverted", "taken back"]),
    }


def _follow_up(tx: Tx) -> None:
    """Deliveries that were made, and options that were handed out."""
    tx.execute("UPDATE deliveries SET state = 'succeeded', next_at_ms = NULL, last_status = 200")
    tx.execute(
        "INSERT INTO attempts (delivery_id, n, trigger, at_ms, status, duration_ms, body)"
        " SELECT id, 1, 'auto', created_at_ms + 5, 200, 80, x'6f6b' FROM deliveries"
    )
    tx.execute(
        "INSERT INTO options (id, payment_id, asset, asset_key, account, account_key)"
        " SELECT 'opt_' || id, id, ?1, ?1, ?2, ?2 FROM payments",
        (USDC, f"{CHAIN}:0x1"),
    )
    tx.execute(
        "INSERT INTO quotes (option_id, payment_id, amount, destination, actions, valid_from_ms,"
        " valid_until_ms)"
        " SELECT 'opt_' || id, id, '5', 'x', x'5b5d', created_at_ms + 9, created_at_ms + 99 FROM payments"
    )
    tx.execute(
        "INSERT INTO api_log (at_ms, account_id, actor, request_id, method, route, subject, status,"
        " took_ms)"
        " SELECT created_at_ms, account_id, 'key_1', 'req_' || id, 'POST', '/v1/payments', '', 201, 5"
        " FROM payments"
    )


def questions(payments: int) -> dict[str, Callable[[random.Random], Ask]]:
    """What is asked, each time of another payment, day or merchant."""

    def listed(**chosen: Any) -> Ask:
        return lambda tx: list_payments(tx, PaymentFilter(account_id=ACCOUNT, **chosen), None, PAGE + 1)

    def searched(text: str) -> Ask:
        sought = read_search(text)
        assert sought is not None
        return lambda tx: find_anything(tx, ACCOUNT, sought)

    def deep(dice: random.Random) -> Ask:
        place = dice.randrange(1, payments)
        after = (START_MS + place * DAYS * DAY_MS // (payments + 1), place)
        return lambda tx: list_payments(tx, PaymentFilter(account_id=ACCOUNT), after, PAGE + 1)

    def some_days(dice: random.Random) -> dict[str, int]:
        start_ms = START_MS + dice.randrange(DAYS - 7) * DAY_MS
        return {"start_ms": start_ms, "end_ms": start_ms + 7 * DAY_MS}

    def one(dice: random.Random) -> int:
        return dice.randrange(1, payments + 1)

    return {
        "list: first page": lambda dice: listed(),
        "list: any later page": deep,
        "list: one status": lambda dice: listed(
            statuses=(dice.choice(["failed", "succeeded", "processing"]),)
        ),
        "list: merchant, status, currency, a week": lambda dice: listed(
            merchants=(f"mrch_{dice.randrange(MERCHANTS)}",),
            statuses=("failed",),
            currency="EUR",
            **some_days(dice),
        ),
        "list: an asset that is rare": lambda dice: listed(asset=RARE_ASSET),
        "list: what nothing passes": lambda dice: listed(
            asset=RARE_ASSET, statuses=("expired",), currency="EUR"
        ),
        "list: references that begin, few": lambda dice: listed(text=read_search(f"ORDER-{one(dice)}")),
        "list: references that begin, all": lambda dice: listed(text=read_search("ORDER")),
        "list: a buyer": lambda dice: listed(text=read_search(f"0x{dice.randrange(BUYERS):040x}")),
        "list: how many are new": lambda dice: (
            lambda tx: count_new(
                tx, PaymentFilter(account_id=ACCOUNT, statuses=("succeeded",)), newest_seq(tx) - 1000
            )
        ),
        "list: its rows as they are now": lambda dice: _rows_again(dice, payments),
        "search: a payment's id": lambda dice: searched(f"pay_t{one(dice)}"),
        "search: a reference": lambda dice: searched(f"ORDER-{one(dice)}"),
        "search: a transaction": lambda dice: searched(f"0x{one(dice):064x}"),
        "search: a buyer": lambda dice: searched(f"0x{dice.randrange(BUYERS):040x}"),
        "detail: the whole timeline": lambda dice: _told(f"pay_t{one(dice)}"),
        "home: 90 days, today, what to look at": lambda dice: _home,
        "API log: a page of refusals": lambda dice: (
            lambda tx: list_logged(tx, LogFilter(account_id=ACCOUNT, refused=True), None, PAGE)
        ),
    }


def _rows_again(dice: random.Random, payments: int) -> Ask:
    first = dice.randrange(1, payments - PAGE)
    ids = [f"pay_t{number}" for number in range(first, first + PAGE)]
    return lambda tx: payments_by_id(tx, ACCOUNT, ids)


def _told(payment_id: str) -> Ask:
    return lambda tx: read_timeline(tx, ACCOUNT, payment_id)


def _home(tx: Tx) -> object:
    days = last_days(NOW_MS, DAYS, 330)
    numbers = numbers_by_day(days, read_tallies(tx, ACCOUNT, days))
    return (
        numbers,
        count_created(tx, ACCOUNT, NOW_MS - DAY_MS, 10_000),
        count_open(tx, ACCOUNT, 10_000),
        account_matters(tx, ACCOUNT, NOW_MS),
    )


async def dashboard_lines(folder: Path, plan: Browse, say: Callable[[str], None]) -> list[Line]:
    """Every question, at every number of payments."""
    lines: list[Line] = []
    with bridge():
        for payments in plan.payments:
            path = folder / f"realm{payments}.db"
            say(f"{payments:,} payments are made")
            fill(path, payments)
            async with open_database(path, "realm") as db:
                for title, question in questions(payments).items():
                    say(f"{title}, {payments:,} payments")
                    ours, alone = await _measure(db, path, question, plan.asks)
                    lines.append(_line(title, payments, ours, alone))
    return lines


async def _measure(
    db: Database, path: Path, question: Callable[[random.Random], Ask], asks: int
) -> tuple[list[float], list[float]]:
    """Milliseconds of each asking, through the store and by SQLite alone, one after the other."""
    dice = random.Random(11)
    ours, alone = [], []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as plain:
        for _ in range(asks):
            ask = question(dice)
            statements = _statements(plain, ask)
            started_s = time.perf_counter()
            await db.read(ask)
            ours.append((time.perf_counter() - started_s) * 1000)
            started_s = time.perf_counter()
            for statement in statements:
                plain.execute(statement).fetchall()
            alone.append((time.perf_counter() - started_s) * 1000)
    return ours, alone


def _statements(plain: sqlite3.Connection, ask: Ask) -> list[str]:
    """What a question runs, with its values in it."""
    seen: list[str] = []
    plain.set_trace_callback(seen.append)
    ask(plain)
    plain.set_trace_callback(None)
    return seen


def _line(title: str, payments: int, ours: list[float], alone: list[float]) -> Line:
    goal = "p99 < 300 ms" if payments >= 100_000 else "–"
    return (
        title,
        f"{payments:,} payments",
        _both(ours),
        _both(alone),
        f"**{median(ours) / median(alone):.2f}**",
        goal,
    )


def _both(times_ms: list[float]) -> str:
    p99_ms = quantiles(times_ms, n=100, method="inclusive")[98] if len(times_ms) > 1 else times_ms[0]
    return f"{median(times_ms):.2f} / {p99_ms:.2f}"
