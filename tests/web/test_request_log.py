"""Which requests the log keeps, and that it holds no secret and nothing of what was sent or answered."""

from __future__ import annotations

from typing import Any

import msgspec
import trio

from payd.store.api_log import LogFilter, LogRow, list_logged
from tests.shop import Shop


async def rows(shop: Shop, account_id: str = "") -> list[LogRow]:
    await shop.realm.api_log.run_once()
    chosen = LogFilter(account_id=account_id or shop.account_id)
    return await shop.realm.db.read(list_logged, chosen, None, 99)


async def test_a_request_is_kept_with_its_key_route_and_end(shop: Shop) -> None:
    payment_id = await shop.pay()
    await shop.realm.api_log.run_once()
    found = await shop.call("GET", f"/v1/payments/{payment_id}")
    (row, *_) = await rows(shop)

    logged = row.logged
    assert (logged.method, logged.route, logged.subject) == ("GET", "/v1/payments/{id}", payment_id)
    assert (logged.status, logged.error) == (200, None)
    assert logged.request_id == found.headers["request-id"]
    assert row.key_last4 == shop.key[-4:]
    assert logged.took_ms >= 0


async def test_a_refusal_is_kept_with_its_words_and_a_success_without(shop: Shop) -> None:
    refused = await shop.call("POST", "/v1/payments", {"referenceId": 5}, merchant_id=shop.merchant_id)
    assert refused.status == 400
    (row, *others) = await rows(shop)

    assert row.logged.error == refused.raw
    assert all(one.logged.error is None for one in others)


async def test_a_refusal_is_kept_in_the_one_shape_however_it_was_told(shop: Shop) -> None:
    found = await shop.call("GET", "/v1/payments/pay_t1", accept="application/problem+json")
    (row, *_) = await rows(shop)

    kept = msgspec.json.decode(row.logged.error or b"")
    assert (kept["message"], kept["code"]) == (found.body["detail"], found.code)
    assert kept["details"] == {"requestId": found.body["instance"], "docUrl": found.body["type"]}


async def test_what_was_forbidden_is_kept_too(shop: Shop) -> None:
    narrow = await shop.new_key(scopes=["payments:read"])
    await shop.call("GET", "/v1/merchants", key=narrow)
    (row, *_) = await rows(shop)

    assert (row.logged.status, row.key_last4) == (403, narrow[-4:])


async def test_a_key_that_was_sent_in_the_place_of_an_id_is_not_kept(shop: Shop) -> None:
    """Who swaps two variables would else show it to everybody who may look into the dashboard's log."""
    await shop.call("GET", f"/v1/payments/{shop.key}")
    (row, *_) = await rows(shop)

    assert (row.logged.status, row.logged.path) == (404, "/v1/payments/[redacted]")


async def test_what_has_no_id_in_its_path_is_about_the_merchant_that_it_names(shop: Shop) -> None:
    payment_id = await shop.pay()
    await shop.call("GET", f"/v1/payments/{payment_id}/status", merchant_id=shop.merchant_id)
    await shop.call("GET", "/v1/payments", merchant_id="svc_test_secret")
    await shop.call("GET", "/v1/payments")
    await shop.call("POST", "/v1/payments", {}, merchant_id=shop.merchant_id)
    found = [(row.logged.method, row.logged.subject) for row in await rows(shop)][:5]

    assert found == [
        ("POST", shop.merchant_id),
        ("GET", ""),
        ("GET", ""),
        ("GET", payment_id),
        ("POST", payment_id),
    ]


async def test_only_the_request_that_created_a_payment_is_about_it(shop: Shop) -> None:
    body = {"referenceId": "A", "amount": {"unit": "iso4217/USD", "value": "1"}}
    sent: dict[str, Any] = {"merchant_id": shop.merchant_id, "idempotency_key": "k"}
    made, again = [await shop.call("POST", "/v1/payments", body, **sent) for _ in range(2)]
    assert again.raw == made.raw
    older = await shop.call("POST", "/v1/merchant/payment", body, merchant_id=shop.merchant_id)
    found = [(row.logged.request_id, row.logged.subject) for row in await rows(shop)][:3]

    assert found == [
        (older.headers["request-id"], older.body["paymentId"]),
        (again.headers["request-id"], shop.merchant_id),
        (made.headers["request-id"], made.body["paymentId"]),
    ]


async def test_of_two_at_once_only_the_one_that_created_the_payment_is_about_it(shop: Shop) -> None:
    body = {"referenceId": "A", "amount": {"unit": "iso4217/USD", "value": "1"}}
    made: list[str] = []

    async def create() -> None:
        found = await shop.call(
            "POST", "/v1/payments", body, merchant_id=shop.merchant_id, idempotency_key="k"
        )
        made.append(found.body["paymentId"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create)
        nursery.start_soon(create)
    found = {row.logged.subject for row in (await rows(shop))[:2]}

    assert len(set(made)) == 1
    assert found == {made[0], shop.merchant_id}


async def test_strangers_and_other_accounts_leave_nothing_here(shop: Shop) -> None:
    before = len(await rows(shop))
    await shop.call("GET", "/v1/payments", key=None)
    await shop.call("GET", "/v1/payments", key="svc_test_nonsense")
    await shop.call("GET", "/livez", key=None)
    await shop.call("GET", "/v1/payments", key=shop.other_key)

    assert len(await rows(shop)) == before


async def test_the_log_holds_no_secret(shop: Shop) -> None:
    made = await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "https://93.184.216.34/hook?token=abc"})
    await shop.call("POST", "/v1/webhooks/endpoint/reveal")
    await shop.call("GET", "/v1/payments?cursor=%21", key=shop.key)
    assert made.status == 200
    await shop.realm.api_log.run_once()

    def everything() -> str:
        return shop.realm.db.point(lambda tx: str(tx.execute("SELECT * FROM api_log").fetchall()))

    kept = everything()
    assert made.body["secret"] not in kept
    assert shop.key not in kept
    assert "token=abc" not in kept


async def test_a_creation_is_about_its_payment_and_a_repetition_about_its_merchant(shop: Shop) -> None:
    body = {"referenceId": "ORDER-1", "amount": {"unit": "iso4217/USD", "value": "2500"}}
    made, _ = [
        await shop.call("POST", "/v1/payments", body, merchant_id=shop.merchant_id, idempotency_key="k")
        for _ in range(2)
    ]
    again, first, *_ = await rows(shop)

    assert first.logged.subject == made.body["paymentId"]
    assert again.logged.subject == shop.merchant_id
