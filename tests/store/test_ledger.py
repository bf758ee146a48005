"""The dashboard's list: filters that combine, what is new, rows as they are, and pages that hold still."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from payd.core.search import read_search
from payd.store.db import Database, Tx
from payd.store.ledger import NEW_MAX, ROWS_MAX, count_new, currencies_used, newest_seq, payments_by_id
from payd.store.migrate import migrate, read_migrations
from payd.store.payments import PaymentFilter, list_payments
from payd.store.transfers import Transfer
from tests.inserts import insert_transfer
from tests.ledger import BUYER, CHAIN, START_MS, USDC, sell

ETH = "eip155:1/slip44:60"
OTHER_BUYER = "eip155:1:0x15d34aaf54267db7d7c367839aaf71a00a2c6a65"
SALES = st.lists(
    st.fixed_dictionaries(
        {
            "state": st.sampled_from(["requires_action", "processing", "succeeded", "expired", "cancelled"]),
            "at_ms": st.integers(START_MS, START_MS + 5),
            "currency": st.sampled_from(["USD", "EUR"]),
            "account_id": st.sampled_from(["acct_1", "acct_1", "acct_2"]),
            "merchant_id": st.sampled_from(["mrch_1", "mrch_2"]),
            "reference_id": st.sampled_from(["A-1", "A-2", "B", BUYER]),
            "paid": st.sampled_from([(USDC, BUYER), (ETH, OTHER_BUYER)]),
        }
    ),
    max_size=12,
)
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "statuses": st.sampled_from([("succeeded",), ("requires_action", "expired")]),
        "merchants": st.sampled_from([("mrch_1",), ("mrch_1", "mrch_2"), ()]),
        "asset": st.just(USDC),
        "networks": st.just((CHAIN,)),
        "currency": st.just("EUR"),
        "start_ms": st.integers(START_MS, START_MS + 5),
        "end_ms": st.integers(START_MS, START_MS + 5),
        "text": st.sampled_from(["A", "A-2", BUYER, "0X15D34AAF54267DB7D7C367839AAF71A00A2C6A65"]).map(
            read_search
        ),
        "descending": st.booleans(),
    },
)


@contextmanager
def opened() -> Iterator[Tx]:
    """An empty realm in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as tx:
        migrate(tx, read_migrations("realm"))
        yield tx


def passes(sale: dict[str, Any], chosen: PaymentFilter) -> bool:
    """The filter by another road: in Python, one sale at a time."""
    asset, buyer = sale["paid"] if sale["state"] in ("processing", "succeeded") else (None, None)
    sought = chosen.text
    known = sought is None or (
        sale["reference_id"].startswith(sought.text)
        if sought.address is None
        else sale["reference_id"] == sought.text
        or (buyer is not None and buyer.rpartition(":")[2].lower() == sought.address)
    )
    return (
        known
        and sale["account_id"] == chosen.account_id
        and (not chosen.statuses or sale["state"] in chosen.statuses)
        and (chosen.merchants is None or sale["merchant_id"] in chosen.merchants)
        and chosen.asset in (None, asset)
        and (not chosen.networks or (asset or "").partition("/")[0] in chosen.networks)
        and chosen.currency in (None, sale["currency"])
        and (chosen.start_ms is None or sale["at_ms"] >= chosen.start_ms)
        and (chosen.end_ms is None or sale["at_ms"] < chosen.end_ms)
    )


@given(SALES, FILTERS, st.integers(1, 4))
@settings(max_examples=60)
def test_filters_combine_and_pages_join_to_the_whole(
    sales: list[dict[str, Any]], options: dict[str, Any], limit: int
) -> None:
    chosen = PaymentFilter(account_id="acct_1", **options)
    with opened() as tx:
        ids = [
            sell(
                tx,
                **{name: one[name] for name in one.keys() - {"paid"}},
                asset=one["paid"][0],
                buyer=one["paid"][1],
            ).id
            for one in sales
        ]
        order = sorted(range(len(sales)), key=lambda n: (sales[n]["at_ms"], n), reverse=chosen.descending)
        pages, after = [], None
        while page := list_payments(tx, chosen, after, limit):
            pages += [one.id for _, one in page]
            after = (page[-1][1].created_at_ms, page[-1][0])
        assert pages == [ids[n] for n in order if passes(sales[n], chosen)]
        assert count_new(tx, chosen, 0) == len(pages)


async def test_a_page_holds_still_while_payments_arrive_and_says_how_many(realm_db: Database) -> None:
    chosen = PaymentFilter(account_id="acct_1", statuses=("requires_action",))
    for number in range(6):
        await realm_db.write(sell, at_ms=START_MS + number)
    since = realm_db.point(newest_seq)
    first = await realm_db.read(list_payments, chosen, None, 3)
    for number in range(4):
        await realm_db.write(sell, at_ms=START_MS + 10 + number)
    await realm_db.write(sell, "expired", at_ms=START_MS + 20)
    await realm_db.write(sell, account_id="acct_2", at_ms=START_MS + 20)
    seq, last = first[-1]
    second = await realm_db.read(list_payments, chosen, (last.created_at_ms, seq), 3)

    assert [one.created_at_ms - START_MS for _, one in first + second] == [5, 4, 3, 2, 1, 0]
    assert realm_db.point(count_new, chosen, since) == 4
    assert realm_db.point(newest_seq) == since + 6


async def test_no_more_is_counted_than_is_shown(realm_db: Database) -> None:
    for _ in range(NEW_MAX + 3):
        await realm_db.write(sell)

    assert realm_db.point(count_new, PaymentFilter(account_id="acct_1"), 0) == NEW_MAX


async def test_what_is_new_is_counted_from_its_place_on(realm_db: Database) -> None:
    def plan(tx: Tx) -> list[str]:
        seen: list[str] = []
        tx.set_trace_callback(seen.append)
        count_new(tx, PaymentFilter(account_id="acct_1", statuses=("expired",)), 5)
        tx.set_trace_callback(None)
        return [row[3] for row in tx.execute(f"EXPLAIN QUERY PLAN {seen[0]}")]

    assert "SEARCH payments USING INTEGER PRIMARY KEY (rowid>?)" in realm_db.point(plan)


async def test_rows_are_as_they_are_now_in_the_order_asked_for(realm_db: Database) -> None:
    one, two = await realm_db.write(sell, "succeeded"), await realm_db.write(sell)
    theirs = await realm_db.write(sell, account_id="acct_2")
    asked = [two.id, "pay_tnone", theirs.id, one.id, two.id]

    assert realm_db.point(payments_by_id, "acct_1", asked) == [two, one]
    assert realm_db.point(payments_by_id, "acct_1", []) == []
    many = [f"pay_tx{number}" for number in range(ROWS_MAX)]
    assert realm_db.point(payments_by_id, "acct_1", [*many, one.id]) == []


async def test_a_list_finds_by_transaction_whoever_told_of_it(realm_db: Database) -> None:
    paid, told, seen = "0x" + "1" * 64, "0x" + "2" * 64, "0x" + "3" * 64
    one, two = await realm_db.write(sell, "succeeded", tx_id=paid), await realm_db.write(sell)

    def more(tx: Tx) -> None:
        tx.execute("INSERT INTO hints VALUES (?, '', ?, 5)", (two.id, told))
        insert_transfer(tx, Transfer("acct_1", two.id, CHAIN, seen, 0, USDC, "5", BUYER, BUYER, "late", 1))

    await realm_db.write(more)

    async def listed(text: str, account: str = "acct_1") -> list[str]:
        chosen = PaymentFilter(account_id=account, text=read_search(text))
        return [found.id for _, found in await realm_db.read(list_payments, chosen, None, 9)]

    assert await listed(paid.upper().replace("0X", "0x")) == [one.id]
    assert await listed(told) == await listed(seen) == [two.id]
    assert await listed(one.id) == await listed(BUYER) == [one.id]
    assert (
        await listed(one.id, "acct_2") == await listed(paid, "acct_2") == await listed(told, "acct_2") == []
    )


async def test_currencies_are_found_by_a_look_for_each_and_of_this_account_alone(realm_db: Database) -> None:
    asked: list[str] = []

    def fill(tx: Tx) -> None:
        for code in ("USD", "EUR", "USD", "JPY", "EUR"):
            sell(tx, "requires_action", currency=code)
        sell(tx, "requires_action", currency="GBP", account_id="acct_2")

    def plan(tx: Tx) -> list[str]:
        tx.set_trace_callback(asked.append)
        currencies_used(tx, "acct_1")
        tx.set_trace_callback(None)
        return [row[3] for row in tx.execute(f"EXPLAIN QUERY PLAN {asked[0]}")]

    await realm_db.write(fill)
    assert realm_db.point(currencies_used, "acct_1") == ["EUR", "JPY", "USD"]
    assert realm_db.point(currencies_used, "acct_9") == []
    looks = [step for step in await realm_db.write(plan) if " payments " in step]
    assert len(looks) == 2
    assert all("COVERING INDEX payments_by_amount (account_id=?" in look for look in looks)
    assert sum("currency>?" in look for look in looks) == 1
