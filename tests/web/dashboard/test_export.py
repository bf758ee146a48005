"""The export: exactly the filtered list, in every state, and never much of it in memory."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from payd.core.search import read_search
from payd.store.db import Tx
from payd.store.merchants import Merchant, insert_merchant
from payd.store.payments import PaymentFilter, list_payments
from payd.store.refunds import insert_refund
from payd.web.dashboard import export
from payd.web.dashboard.export import COLUMNS, export_payments
from payd.web.schema import Words
from tests.ledger import BUYER, CHAIN, START_MS, sell
from tests.shop import Shop

STATES = (
    "requires_action",
    "processing",
    "succeeded",
    "settled",
    "failed",
    "failed_after",
    "expired",
    "cancelled",
)


async def fill(shop: Shop, count: int, **more: Any) -> None:
    def step(tx: Tx) -> None:
        for number in range(count):
            state = STATES[number % len(STATES)]
            sell(tx, state, at_ms=START_MS + number, account_id=shop.account_id, reason="=why", **more)

    await shop.realm.db.write(step)


async def exported(shop: Shop, **chosen: Any) -> list[dict[str, str]]:
    words = Words(tuple(shop.realm.payments.chains))
    found = PaymentFilter(account_id=shop.account_id, **chosen)
    parts = [part async for part in export_payments(shop.realm, words, found)]
    return list(csv.DictReader(io.StringIO(b"".join(parts).decode(), newline="")))


async def listed(shop: Shop, **chosen: Any) -> list[str]:
    found = PaymentFilter(account_id=shop.account_id, **chosen)
    return [one.id for _, one in await shop.realm.db.read(list_payments, found, None, 9999)]


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"statuses": ("succeeded",)},
        {"statuses": ("failed", "expired"), "descending": False},
        {"text": read_search(BUYER)},
        {"start_ms": START_MS + 3, "end_ms": START_MS + 9, "currency": "USD"},
        {"sort_by": "amount", "currency": "USD"},
        {"networks": ("eip155:1",)},
    ],
)
async def test_an_export_is_the_filtered_list(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any]
) -> None:
    monkeypatch.setattr(export, "PAGE", 5)
    await fill(shop, 16)

    assert [row["payment_id"] for row in await exported(shop, **chosen)] == await listed(shop, **chosen)


async def test_a_row_has_both_kinds_of_amount_and_utc_times(shop: Shop) -> None:
    await shop.realm.db.write(
        insert_merchant, Merchant("mrch_1", shop.account_id, "=Café", "a@b.test", None, "active", 1)
    )
    await fill(shop, len(STATES), reference_id='-1,"x"')
    by_state = {(row["status"], bool(row["settled_at"])): row for row in await exported(shop)}

    row = by_state["succeeded", True]
    assert tuple(row) == COLUMNS
    assert (row["reference_id"], row["merchant_name"]) == ('\'-1,"x"', "'=Café")
    assert (row["currency"], row["amount_minor"], row["amount"]) == ("USD", "2500", "25.00")
    assert (row["paid_symbol"], row["paid_units"], row["paid"]) == ("USDC", "1000000", "1.000000")
    assert (row["network"], row["buyer"]) == (CHAIN, BUYER)
    assert row["created_at"] == "2026-05-28T20:26:40.003Z"
    assert row["settled_tx_id"] == row["tx_id"] != ""
    assert by_state["requires_action", False]["paid_units"] == ""
    assert by_state["failed", False]["failure_reason"] == "'=why"
    assert by_state["cancelled", False]["cancellation_reason"] == "'=why"


async def test_where_nobody_knows_an_assets_decimals_any_more_no_number_is_made_up(shop: Shop) -> None:
    await shop.realm.db.write(
        lambda tx: sell(tx, "settled", account_id=shop.account_id, asset=f"{CHAIN}/erc20:0x{'ab' * 20}")
    )
    words = Words(())
    found = PaymentFilter(account_id=shop.account_id)
    parts = [part async for part in export_payments(shop.realm, words, found)]
    [row] = csv.DictReader(io.StringIO(b"".join(parts).decode(), newline=""))

    assert (row["paid_units"], row["received_units"]) == ("1000000", "1000000")
    assert (row["paid"], row["received"]) == ("", "")


async def test_nothing_was_paid_or_received_that_did_not_come(shop: Shop) -> None:
    await fill(shop, len(STATES))
    rows = await exported(shop)

    money = ("paid_asset", "paid_units", "paid", "fee_units", "fee", "received_units", "received")
    for row in rows:
        assert any(row[name] for name in money) == (row["status"] == "succeeded"), row
    assert [row["received"] for row in rows if row["received"]] == ["1.000000"] * 2
    # What a buyer committed that came to nothing is told by its network and who it was.
    assert [bool(row["buyer"]) for row in rows if row["status"] == "failed"] == [True, False]


async def test_a_row_tells_that_the_money_was_paid_back(shop: Shop) -> None:
    await fill(shop, len(STATES))
    paid = [row for row in await exported(shop) if row["status"] == "succeeded"]
    assert [row["refunded_at"] for row in paid] == ["", ""]
    # One transaction may pay back several, and a merchant may say that without one.
    [first, second] = [row["payment_id"] for row in paid]
    await shop.realm.db.write(insert_refund, first, "0xback", None, START_MS)
    await shop.realm.db.write(insert_refund, second, None, "=half", START_MS + 1)
    rows = {row["payment_id"]: row for row in await exported(shop)}

    told = [(rows[one]["refund_tx_id"], rows[one]["refund_note"]) for one in (first, second)]
    assert told == [("0xback", ""), ("", "'=half")]
    assert rows[first]["refunded_at"] == "2026-05-28T20:26:40.000Z"
    assert sum(bool(row["refunded_at"]) for row in rows.values()) == 2


async def test_what_arrives_while_it_runs_is_not_in_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 2)
    await fill(shop, 5)
    words = Words(tuple(shop.realm.payments.chains))
    chosen = PaymentFilter(account_id=shop.account_id, descending=False)
    parts = []
    async for part in export_payments(shop.realm, words, chosen):
        parts.append(part)
        if len(parts) < 4:
            await fill(shop, 1)

    assert b"".join(parts).count(b"\r\n") == 1 + 5


async def test_no_part_is_more_than_a_page_of_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PAGE", 3)
    await fill(shop, 10)
    words = Words(tuple(shop.realm.payments.chains))
    parts = [
        part async for part in export_payments(shop.realm, words, PaymentFilter(account_id=shop.account_id))
    ]

    assert [part.count(b"\r\n") for part in parts] == [1, 3, 3, 3, 1]


async def test_another_accounts_payments_are_in_no_export(shop: Shop) -> None:
    await shop.realm.db.write(sell, account_id="acct_other")

    assert await exported(shop) == []
