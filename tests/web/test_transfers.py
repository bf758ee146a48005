"""Transfers over REST: the list, and what is said of a match before any chain is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from payd.actors.claims import Claimed
from payd.clock import monotonic_s
from payd.web import transfers
from payd.web.limits import MATCHES_AT_ONCE, match_limit
from tests.shop import TX_HASH, Got, Shop, open_shop


async def paid(shop: Shop) -> str:
    """A test payment that succeeded."""
    payment = await shop.pay()
    done = await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    assert done.status == 200
    return payment


async def match(shop: Shop, payment: str, body: Any = None, **headers: Any) -> Got:
    return await shop.call("POST", f"/v1/payments/{payment}/match", body or {"txId": TX_HASH}, **headers)


async def test_transfers_are_listed_newest_first_and_by_whether_they_paid(shop: Shop) -> None:
    made = [await paid(shop) for _ in range(3)]
    whole = await shop.call("GET", "/v1/transfers")
    assert [one["paymentId"] for one in whole.body["data"]] == made[::-1]
    assert (await shop.call("GET", "/v1/transfers?matched=false")).body["data"] == []
    seen, cursor = [], ""
    while True:
        page = await shop.call("GET", f"/v1/transfers?matched=true&limit=1{cursor}")
        seen += [one["paymentId"] for one in page.body["data"]]
        if page.body["nextCursor"] is None:
            break
        cursor = f"&cursor={page.body['nextCursor']}"
    assert seen == made[::-1]
    for query in ("matched=1", "limit=0", "limit=201", "cursor=x"):
        found = await shop.call("GET", f"/v1/transfers?{query}")
        assert (found.status, found.code) == (400, "invalid_params")
    assert (await shop.call("GET", "/v1/transfers", key=shop.other_key)).body["data"] == []


async def test_a_simulated_transfer_is_on_its_chain_and_in_no_block(shop: Shop) -> None:
    await paid(shop)
    [one] = (await shop.call("GET", "/v1/transfers")).body["data"]
    assert (one["onChain"], one["blockNumber"]) == (True, None)


async def test_a_test_payment_is_simulated_and_not_matched(shop: Shop) -> None:
    payment = await shop.pay()
    refused = await match(shop, payment)
    assert (refused.status, refused.code) == (400, "invalid_params")
    assert f"/v1/test/payments/{payment}/simulate" in refused.body["message"]


@pytest.mark.parametrize(
    ("body", "field"),
    [({"chain": "eip155:1"}, "txId"), ({"txId": 1}, "txId"), ({"txId": "0x", "chain": 1}, "chain")],
)
async def test_a_body_that_misses_the_schema_names_the_field(
    shop: Shop, body: dict[str, Any], field: str
) -> None:
    refused = await match(shop, await shop.pay(), body)
    assert (refused.code, refused.body["issues"][0]["field"]) == ("params_validation", field)


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[tuple[Shop, str]]:
    """A shop whose chains are gone, and the key and payment that they left behind."""
    async with open_shop(tmp_path / "data", live=True) as shop:
        key = shop.keys["live.one"]
        merchant = await shop.new_merchant(key=key, pays=False)
        yield shop, await left_behind(shop, merchant)


async def left_behind(shop: Shop, merchant_id: str) -> str:
    """A live payment of a merchant, as a row."""
    from payd.core.payment import Payment, open_payment
    from payd.entropy import new_id
    from payd.store.outbox import EventToStore
    from tests.inserts import insert_payment

    realm = shop.house.realms["live"]
    now_ms = realm.clock.now_ms()
    payment = Payment(
        id=new_id("pay_l", now_ms),
        account_id=shop.account_id,
        merchant_id=merchant_id,
        reference_id="R",
        currency="USD",
        value=2500,
        created_at_ms=now_ms,
        expires_at_ms=now_ms + 900_000,
        updated_at_ms=now_ms,
    )
    event = EventToStore("evt_1", b"{}", "dlv_1", "msg_1")
    await realm.db.write(insert_payment, open_payment(payment), event, payment.expires_at_ms)
    return payment.id


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        (None, "No chain is configured"),
        ("eip155:8453", "eip155:8453 is not configured. There is none."),
        ("base", "such as eip155:8453"),
    ],
)
async def test_where_no_chain_can_be_asked_it_is_said(
    live: tuple[Shop, str], chain: str | None, words: str
) -> None:
    shop, payment = live
    body = {"txId": TX_HASH} | ({} if chain is None else {"chain": chain})
    refused = await match(shop, payment, body, key=shop.keys["live.one"])
    assert (refused.status, refused.code) == (400, "invalid_params")
    assert words in refused.body["message"]


async def test_a_key_of_the_other_mode_finds_no_such_payment(live: tuple[Shop, str]) -> None:
    shop, payment = live
    for key in (shop.keys["test.one"], shop.keys["live.two"]):
        refused = await match(shop, payment, key=key)
        assert (refused.status, refused.code) == (404, "payment_not_found")


async def test_an_account_may_have_so_many_transactions_read(live: tuple[Shop, str]) -> None:
    shop, payment = live
    stopped_s = monotonic_s()
    shop.house.limits.matches = match_limit(lambda: stopped_s)
    for _ in range(MATCHES_AT_ONCE):
        assert (await match(shop, payment, key=shop.keys["live.one"])).status == 400

    refused = await match(shop, payment, key=shop.keys["live.one"])

    assert (refused.status, refused.code, refused.headers["retry-after"]) == (429, "rate_limited", "1")


async def test_who_speaks_for_some_merchants_is_known_to_the_match(
    live: tuple[Shop, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def heard(*said: Any) -> Claimed:
        spoken.append(said[-1])
        return Claimed("not_ours", "It is not.")

    spoken: list[frozenset[str] | None] = []
    monkeypatch.setattr(transfers, "claim", heard)
    shop, payment = live
    merchant = shop.house.realms["live"].payments.find(payment).merchant_id
    limited = await shop.new_key(realm="live", account_id=shop.account_id, merchants=[merchant])
    for key in (limited, shop.keys["live.one"]):
        assert (await match(shop, payment, key=key)).status == 200
    assert spoken == [frozenset({merchant}), None]
