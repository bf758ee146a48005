"""The list of payments: each filter, both orders, and pages that stay whole while payments arrive."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
import trio

from payd.core.event import iso_ms
from payd.entropy import new_id
from payd.web.cursor import encode_cursor
from tests.shop import BUYER, ETH_BASE, SIGNATURE, SOLANA, SOLANA_WALLET, USDC_BASE, USDC_SOLANA, Shop


async def listed(shop: Shop, query: str = "", **headers: str) -> list[str]:
    found = await shop.call("GET", f"/v1/payments?{query}", key=headers.pop("key", ""), raw=None, **headers)
    assert found.status == 200, found.body
    return [one["paymentId"] for one in found.body["data"]]


async def refused(shop: Shop, query: str) -> None:
    found = await shop.call("GET", f"/v1/payments?{query}")
    assert (found.status, found.code) == (400, "invalid_params"), query


async def spaced(shop: Shop, count: int, **more: Any) -> list[str]:
    """Payments a second apart, oldest first."""
    made = []
    for _ in range(count):
        made.append(await shop.pay(**more))
        await trio.sleep(1)
    return made


async def pages(shop: Shop, query: str, *, between: Any = None) -> list[str]:
    """All pages, joined."""
    seen: list[str] = []
    cursor = ""
    while True:
        found = await shop.call("GET", f"/v1/payments?{query}{cursor}")
        assert found.status == 200, found.body
        seen += [one["paymentId"] for one in found.body["data"]]
        if found.body["nextCursor"] is None:
            return seen
        cursor = f"&cursor={found.body['nextCursor']}"
        if between is not None:
            await between()


async def test_an_item_has_every_field_from_the_start(shop: Shop) -> None:
    payment = await shop.pay()
    found = await shop.call("GET", "/v1/payments")
    assert found.body.keys() == {"data", "nextCursor"}
    (item,) = found.body["data"]
    assert item == {
        "paymentId": payment,
        "merchant": {"id": shop.merchant_id, "name": "Café Größe", "iconUrl": None},
        "referenceId": "ORDER-1",
        "status": "requires_action",
        "isTerminal": False,
        "createdAt": item["createdAt"],
        "lastUpdatedAt": item["createdAt"],
        "fiatAmount": {
            "unit": "iso4217/USD",
            "value": "2500",
            "display": {"assetSymbol": "USD", "assetName": "USD", "decimals": 2},
        },
        "tokenAmount": None,
        "buyer": None,
        "transaction": None,
        "fees": None,
        "settlement": None,
        "settledAt": None,
    }


async def test_an_item_follows_its_payment_to_settlement(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], SIGNATURE)
    await trio.sleep(1.5)
    (item,) = (await shop.call("GET", "/v1/payments")).body["data"]
    assert item["settlement"] == {"settled": False, "amount": None, "txHash": None}
    assert item["settledAt"] is None
    await trio.sleep(1.5)
    (item,) = (await shop.call("GET", "/v1/payments")).body["data"]
    assert item["buyer"] == {"accountCaip10": BUYER}
    assert item["transaction"] == {"networkId": "eip155:8453", "hash": f"test:{payment}"}
    assert item["tokenAmount"]["value"] == "25000000"
    assert (item["settlement"]["settled"], item["settlement"]["txHash"]) == (True, f"test:{payment}")
    assert item["settledAt"] > item["createdAt"]
    assert item["isTerminal"]


async def test_the_newest_comes_first_unless_asked(shop: Shop) -> None:
    made = await spaced(shop, 3)
    assert await listed(shop) == made[::-1]
    assert await listed(shop, "sortDir=desc&sortBy=date") == made[::-1]
    assert await listed(shop, "sortDir=asc") == made


async def test_payments_of_one_moment_keep_their_order_across_pages(shop: Shop) -> None:
    made = [await shop.pay() for _ in range(7)]
    for direction, expected in (("asc", made), ("desc", made[::-1])):
        assert await pages(shop, f"limit=2&sortDir={direction}") == expected


async def test_pages_stay_whole_while_payments_arrive(shop: Shop) -> None:
    made = await spaced(shop, 5)
    late: list[str] = []

    async def one_more() -> None:
        late.append(await shop.pay())

    assert await pages(shop, "limit=2", between=one_more) == made[::-1]
    assert len(late) == 2
    forward = await pages(shop, "limit=3&sortDir=asc")
    assert forward == made + late


async def test_by_amount_needs_one_currency_and_keeps_equal_amounts_whole(shop: Shop) -> None:
    made = [await shop.pay(value=value) for value in ("300", "100", "200", "200", "200", "1000")]
    await shop.pay(value="150", unit="iso4217/EUR")
    ascending = [made[1], made[2], made[3], made[4], made[0], made[5]]
    assert await listed(shop, "sortBy=amount&currency=USD&sortDir=asc") == ascending
    assert await pages(shop, "sortBy=amount&currency=USD&limit=2") == ascending[::-1]
    await refused(shop, "sortBy=amount")
    await refused(shop, "sortBy=amount&currency=usd")
    await refused(shop, "currency=XYZ")
    assert len(await listed(shop, "currency=EUR")) == 1


async def test_the_start_counts_and_the_end_does_not(shop: Shop) -> None:
    made = await spaced(shop, 3)
    times = [iso_ms(shop.realm.payments.find(payment).created_at_ms) for payment in made]
    assert await listed(shop, f"startTs={times[1]}") == [made[2], made[1]]
    assert await listed(shop, f"endTs={times[1]}") == [made[0]]
    assert await listed(shop, f"startTs={times[1]}&endTs={times[2]}") == [made[1]]
    assert await listed(shop, f"startTs={quote(times[1].replace('Z', '+00:00'))}&sortDir=asc") == made[1:]
    for query in ("startTs=now", "endTs=2026-05-18", "startTs=1779098340", "startTs=2026-05-18T10:00:00"):
        await refused(shop, query)


async def test_the_status_is_one_or_several(shop: Shop) -> None:
    made = await spaced(shop, 3)
    await shop.call("POST", f"/v1/test/payments/{made[0]}/simulate", {"to": "failed"})
    await shop.call("POST", f"/v1/payments/{made[1]}/cancel", {})
    assert await listed(shop, "status=failed") == [made[0]]
    assert await listed(shop, "status=failed&status=cancelled") == [made[1], made[0]]
    assert await listed(shop, "status=cancelled,requires_action") == [made[2], made[1]]
    for query in ("status=pending", "status=FAILED", "status=failed&status=x"):
        await refused(shop, query)


async def test_the_merchant_is_one_or_several_of_the_accounts_own(shop: Shop) -> None:
    first, other = shop.merchant_id, await shop.new_merchant()
    one = await shop.pay()
    shop.merchant_id = other
    await trio.sleep(1)
    two = await shop.pay()
    assert await listed(shop, f"merchantId={first}") == [one]
    assert await listed(shop, f"merchantId={first}&merchantId={other}") == [two, one]
    assert await listed(shop, f"merchantId={new_id('mrch_', 0)}") == []
    assert await listed(shop, merchant_id=other) == [two]
    assert await listed(shop, f"merchantId={first}", merchant_id=other) == []
    assert await listed(shop, f"merchantId={other},{first}", merchant_id=other) == [two]
    assert await listed(shop, f"merchantId={first}", key=shop.other_key) == []


async def test_a_limited_key_lists_its_merchants_only(shop: Shop) -> None:
    first, other = shop.merchant_id, await shop.new_merchant()
    one = await shop.pay()
    shop.merchant_id = other
    await shop.pay()
    key = await shop.new_key(merchants=[first])
    assert await listed(shop, key=key) == [one]
    found = await shop.call("GET", f"/v1/payments?merchantId={other}", key=key)
    assert (found.status, found.code) == (403, "forbidden")


async def test_asset_and_network_are_those_it_was_paid_with_however_they_are_spelled(shop: Shop) -> None:
    base = await shop.pay()
    await shop.pay()
    shop.merchant_id = await shop.new_merchant(pays=False)
    await shop.register(shop.merchant_id, USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}")
    solana = await shop.pay()
    for payment in (base, solana):
        await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    for query, expected in (
        (f"asset={USDC_BASE}", [base]),
        (f"asset={USDC_BASE.lower()}", [base]),
        (f"asset={USDC_SOLANA.replace('/token:', '/spl:')}", [solana]),
        (f"asset={ETH_BASE}", []),
        ("network=eip155:8453", [base]),
        ("network=eip155:1,eip155:8453", [base]),
        ("network=solana:mainnet", [solana]),
        (f"network={SOLANA}&network=eip155:8453&sortDir=asc", [base, solana]),
    ):
        assert await listed(shop, query) == expected, query
    for query in ("asset=USDC", "asset=eip155:8453", "network=base", "network=eip155", f"asset={'x' * 300}"):
        await refused(shop, query)


async def test_a_reference_is_found_by_its_beginning(shop: Shop) -> None:
    made = [await shop.pay(reference) for reference in ("A-1", "A-10", "A-2", "a-1", "A%", "🍰 cake", "🍰")]
    for prefix, expected in (
        ("A-1", {made[0], made[1]}),
        ("A-10", {made[1]}),
        ("A", {made[0], made[1], made[2], made[4]}),
        ("%", set()),
        ("A%", {made[4]}),
        ("🍰", {made[5], made[6]}),
        ("🍰 ", {made[5]}),
        ("x", set()),
    ):
        assert set(await listed(shop, f"referenceId={quote(prefix)}")) == expected, prefix
    await refused(shop, f"referenceId={'x' * 256}")


async def test_one_to_two_hundred_a_page_fifty_unless_asked(shop: Shop) -> None:
    for _ in range(51):
        await shop.pay()
    found = await shop.call("GET", "/v1/payments")
    assert len(found.body["data"]) == 50
    assert found.body["nextCursor"] is not None
    whole = await shop.call("GET", "/v1/payments?limit=200")
    assert (len(whole.body["data"]), whole.body["nextCursor"]) == (51, None)
    assert len(await listed(shop, "limit=51")) == 51
    for query in ("limit=0", "limit=201", "limit=-1", "limit=x", "limit=1.5", "limit=1&limit=2"):
        await refused(shop, query)


CURSORS = (
    "x",
    "%00",
    "W10",
    "WzFd",
    "W251bGxd",
    "A" * 600,
    encode_cursor("a", "b"),
    encode_cursor(1),
    encode_cursor(1, 2, 3),
    encode_cursor("date desc", "a", 1),
    encode_cursor("date up", 1, 1),
)


@pytest.mark.parametrize("cursor", CURSORS)
async def test_a_cursor_that_was_never_handed_out_is_refused(shop: Shop, cursor: str) -> None:
    found = await shop.call("GET", f"/v1/payments?cursor={cursor}")
    assert (found.status, found.code) == (400, "invalid_params")


async def test_a_cursor_of_another_order_is_refused_in_words(shop: Shop) -> None:
    for _ in range(2):
        await shop.pay()
    orders = ("", "&sortDir=asc", "&sortBy=amount&currency=USD", "&sortBy=amount&currency=USD&sortDir=asc")
    for order in orders:
        cursor = (await shop.call("GET", f"/v1/payments?limit=1{order}")).body["nextCursor"]
        for other in orders:
            found = await shop.call("GET", f"/v1/payments?limit=1{other}&cursor={cursor}")
            if order == other:
                assert len(found.body["data"]) == 1
            else:
                assert (found.status, found.code) == (400, "invalid_params")
                assert "another order" in found.body["message"]


async def test_a_cursor_that_was_changed_is_refused_or_shows_nothing_of_others(shop: Shop) -> None:
    made = [await shop.pay() for _ in range(3)]
    cursor = (await shop.call("GET", "/v1/payments?limit=1")).body["nextCursor"]
    for place in range(len(cursor)):
        changed = cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :]
        found = await shop.call("GET", f"/v1/payments?cursor={changed}")
        if found.status == 200:
            assert {one["paymentId"] for one in found.body["data"]} <= set(made)
        else:
            assert (found.status, found.code) == (400, "invalid_params")
        assert (await shop.call("GET", f"/v1/payments?cursor={changed}", key=shop.other_key)).body.get(
            "data", []
        ) == []
    await refused(shop, "sortDir=up")
    await refused(shop, "sortBy=name")
