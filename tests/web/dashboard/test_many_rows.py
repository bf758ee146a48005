"""Pages among many rows cost what they show, counted in steps of SQLite's machine; and they stay as they are.

The realm has months of payments. A look that reads through all of them takes several steps for each.
"""

from __future__ import annotations

import random
import re
import secrets
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from payd.clock import system_wall_ms
from payd.store.api_log import LOOKED_AT, Logged, insert_logged
from payd.store.db import Tx
from payd.store.payments import FEW
from payd.store.transfers import Transfer
from tests.bench.pages import Realm, listening_house, statements_of, ways
from tests.bench.realm import fill, payment_id
from tests.crash.process import furnish
from tests.inserts import insert_transfer
from tests.ledger import BUYER, CHAIN, USDC, sell
from tests.statements import overheard, plan_of
from tests.visitor import Visitor, seat

PAYMENTS = 6000
# A page of fifty rows with all that stands beside each.
STEPS_MAX = 4000
STEPS_A_ROW_MAX = 12
# On the loop's own connection everybody waits: some rows by their ids.
POINT_STEPS_MAX = 400
COUNTED_BY = 10

# Looks that go through more than they show, and the most rows that they may: a filter that few pass goes
# along an index of all there is, a count ends at its limit, and days that nobody looked at are added up once.
WALKS = {
    "payments: merchant, status, some days": PAYMENTS,
    "payments: an asset that is rare": PAYMENTS,
    "payments: what nothing passes": PAYMENTS,
    "search: how all references begin": FEW,
    "deliveries: what nothing passes": 3 * PAYMENTS,
    "API log: what nothing passes": PAYMENTS,
    "keys": LOOKED_AT,
    "home": 3 * PAYMENTS,
}
# Of these, each is answered by its index alone: no row is read that is not shown.
COVERED = (
    "payments: merchant, status, some days",
    "payments: an asset that is rare",
    "payments: what nothing passes",
    "deliveries: what nothing passes",
)
READS_ROWS = re.compile(r"SEARCH (payments|deliveries) USING (INDEX|INTEGER)")
# A realm has some dozens; what is looked through here is not what grows with payments.
SMALL = {
    "m",
    "merchants",
    "used",
    "s",
    "settlements",
    "endpoints",
    "endpoint_secrets",
    "api_keys",
    "apps",
    "users",
    "u",
}


@dataclass
class Months:
    """A visitor of the account, and its rows for who wants to ask SQLite itself."""

    visitor: Visitor
    realm: Realm
    rows: sqlite3.Connection

    async def asked(self, title: str) -> list[str]:
        """What a page asks the realm's store."""
        path = ways(self.realm)[title](random.Random(3))
        return [one for store, one in await statements_of(self.visitor, path) if store == "test"]

    def steps(self, statement: str) -> int:
        """How many steps it takes to answer."""
        ticks = 0

        def tick() -> None:
            nonlocal ticks
            ticks += 1

        self.rows.set_progress_handler(tick, COUNTED_BY)
        self.rows.execute(statement).fetchall()
        self.rows.set_progress_handler(None, 0)
        return ticks * COUNTED_BY


@asynccontextmanager
async def open_months(folder: Path, payments: int) -> AsyncIterator[Months]:
    at = await furnish(folder, None)
    data, now_ms = folder / "data", system_wall_ms()
    with closing(sqlite3.connect(data / "test.db")) as rows:
        (account_id,) = rows.execute("SELECT account_id FROM merchants").fetchone()
    fill(data / "test.db", payments, account_id=account_id, now_ms=now_ms)
    token = seat(data, account_id)
    async with listening_house(at, account_id, token) as visitor:
        with closing(sqlite3.connect(data / "test.db")) as rows:
            rows.create_function("casefold", 1, str.casefold, deterministic=True)
            yield Months(visitor, Realm(payments, now_ms), rows)


async def test_no_page_looks_at_more_rows_than_it_shows_or_counts(tmp_path: Path) -> None:
    async with open_months(tmp_path, PAYMENTS) as months:
        too_many, scans, uncovered = {}, {}, []
        for title in ways(months.realm):
            for statement in await months.asked(title):
                plan = plan_of(months.rows, statement)
                steps = months.steps(statement)
                if steps > STEPS_MAX + STEPS_A_ROW_MAX * WALKS.get(title, 0):
                    too_many[title] = (steps, statement)
                scanned = {found[1] for step in plan if (found := re.match(r"SCAN (\w+)", step))}
                if scanned - SMALL:
                    scans[title] = (scanned, statement)
                if title in COVERED and steps > STEPS_MAX and any(map(READS_ROWS.match, plan)):
                    uncovered.append(statement)

    assert too_many == {}
    assert scans == {}
    assert uncovered == []


# What a backend lists; {} is a payment's id.
API = (
    "/v1/payments",
    "/v1/payments?sortBy=amount&currency=USD",
    "/v1/payments?startTs=2020-01-01T00:00:00Z",
    "/v1/payments?referenceId=ORDER-77",
    "/v1/payments/{}",
    "/v1/payments/{}/status",
    "/v1/events",
    "/v1/events?type=payment.failed",
    "/v1/events?paymentId={}",
    "/v1/webhooks/deliveries",
    "/v1/webhooks/deliveries?state=failed",
    "/v1/webhooks/deliveries?paymentId={}",
    "/v1/transfers?matched=false",
)


async def test_no_list_of_the_api_looks_at_more_rows_than_it_shows(tmp_path: Path) -> None:
    async with open_months(tmp_path, PAYMENTS) as months:
        shop, db = months.visitor.shop, months.visitor.shop.realm.db
        one = payment_id(PAYMENTS // 2)
        (seller,) = months.rows.execute("SELECT merchant_id FROM payments WHERE id = ?", (one,)).fetchone()
        nobody = "SELECT id FROM merchants WHERE id NOT IN (SELECT merchant_id FROM payments)"
        (new,) = months.rows.execute(nobody).fetchone()
        for path in API:
            for merchant_id, status in ((None, 200), (seller, 200), (new, 404 if "/{}" in path else 200)):
                named = {} if merchant_id is None else {"merchant_id": merchant_id}
                with overheard(db) as heard:
                    found = await shop.call("GET", path.format(one), **named)
                if merchant_id is not None or not path.endswith("status"):
                    assert found.status == status, path
                steps = {statement: months.steps(statement) for statement in heard}
                assert {one: count for one, count in steps.items() if count > STEPS_MAX} == {}, path


async def test_nobody_waits_while_a_page_counts(tmp_path: Path) -> None:
    async with open_months(tmp_path, 2000) as months:
        months.rows.execute("UPDATE deliveries SET state = 'failed'")
        months.rows.commit()
        visitor, dice = months.visitor, random.Random(3)
        live = ["webhooks?was=Enabled", "webhooks/deliveries?type=payment.expired&after=1", "log?after=1"]
        paths = [way(dice) for way in ways(months.realm).values()] + [f"/d/test/{path}" for path in live]
        with overheard(visitor.shop.realm.db, ["point"]) as heard:
            for path in paths:
                await visitor.follow(path)
            for path in live:
                await visitor.get(f"/d/test/{path}", hx_request="true")

        assert len(heard) > len(paths)
        steps = {statement: months.steps(statement) for statement in heard}
        assert {one: count for one, count in steps.items() if count > POINT_STEPS_MAX} == {}


async def test_what_is_asked_again_and_again_by_an_open_page_costs_next_to_nothing(tmp_path: Path) -> None:
    async with open_months(tmp_path, 1000) as months:
        visitor, asked = months.visitor, []
        for path in ("/d/test/payments", "/d/test/webhooks/deliveries", "/d/test/log", "/d/test/webhooks"):
            page = await visitor.get(path)
            found = re.search(r'hx-get="([^"]*)"', page.html)
            assert found is not None, path
            again = found[1].replace("&amp;", "&")
            shown = re.findall(r'name="row" id="row-[^"]*" value="([^"]*)"', page.html)
            again += "".join(f"&row={one}" for one in shown)
            with overheard(visitor.shop.realm.db) as heard:
                assert (await visitor.get(again, hx_request="true")).status in (200, 204, 286)
            asked += heard

        assert len(asked) >= 5
        assert {one: months.steps(one) for one in asked if months.steps(one) > STEPS_MAX} == {}


# What is listed, by its page: the ids of its rows.
LISTS = {
    "/d/test/payments": r'<th [^>]*scope="row"><a href="/d/test/payments/(pay_\w+)"',
    "/d/test/webhooks/deliveries": r'href="/d/test/webhooks/deliveries/(dlv_\w+)"',
    "/d/test/webhooks/events": r'href="/d/test/webhooks/events/(evt_\w+)"',
    "/d/test/transfers?all=yes": r"\b(0x[0-9a-f]{64})\b",
    "/d/test/log": r"\b(req_pay_t\w+)\b",
}


async def test_later_pages_have_every_row_once_however_many_arrive_meanwhile(tmp_path: Path) -> None:
    async with open_months(tmp_path, 130) as months:
        for path, row in LISTS.items():
            seen: list[str] = []
            known = {found[0] for found in _stored(months, path)}
            to, pages = path, 0
            while to:
                page = await months.visitor.get(to)
                assert page.status == 200, to
                seen += dict.fromkeys(re.findall(row, page.html))
                links = re.findall(r'href="([^"]*cursor=[^"]*)"', page.html)
                to, pages = links[-1].replace("&amp;", "&") if links else "", pages + 1
                await months.visitor.shop.realm.db.write(_more_arrive, months.visitor.account_id, pages)

            assert pages >= 2, path
            assert len(seen) == len(set(seen)), path
            assert set(seen) == known, path


def _stored(months: Months, path: str) -> list[tuple[str]]:
    table, column = {
        "/d/test/payments": ("payments", "id"),
        "/d/test/webhooks/deliveries": ("deliveries", "id"),
        "/d/test/webhooks/events": ("events", "id"),
        "/d/test/transfers?all=yes": ("transfers", "tx_id"),
        "/d/test/log": ("api_log", "request_id"),
    }[path]
    return months.rows.execute(f"SELECT {column} FROM {table}").fetchall()


def _more_arrive(tx: Tx, account_id: str, pages: int) -> None:
    """Three more of everything, now."""
    for _ in range(3):
        sold = sell(tx, "settled", account_id=account_id, at_ms=system_wall_ms() + pages)
        transfer = Transfer(
            account_id, sold.id, CHAIN, f"0x{secrets.token_hex(32)}", 0, USDC, "1", BUYER, BUYER, "matched", 1
        )
        insert_transfer(tx, transfer)
        logged = Logged(1, account_id, "key_1", f"req_{sold.id}", "GET", "/v1/payments", "", 200, 1, None)
        insert_logged(tx, [logged])
