"""Idempotency at the door: one effect for each key, and the same bytes for every repetition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from payd.store.idempotency import Outcome
from payd.web.idempotent import outcome_answer
from tests.shop import BUYER, USDC_BASE, WALLET, Got, Shop, open_shop

NEW = {"referenceId": "ORDER-1", "amount": {"unit": "iso4217/USD", "value": "2500"}}
MERCHANT = {"merchantName": "x", "merchantEmail": "x@example.com"}
REPLAYED = "idempotent-replayed"


async def create(
    shop: Shop, key: str, body: Any = None, *, merchant: str = "", raw: bytes | None = None
) -> Got:
    return await shop.call(
        "POST",
        "/v1/payments",
        None if raw else body or NEW,
        raw=raw,
        merchant_id=merchant or shop.merchant_id,
        idempotency_key=key,
    )


async def count(shop: Shop, what: str = "payments") -> int:
    return len((await shop.call("GET", f"/v1/{what}?limit=100")).body["data"])


async def test_fifty_at_once_under_one_key_make_one_payment(shop: Shop) -> None:
    answers: list[Got] = []

    async def one() -> None:
        answers.append(await create(shop, "same"))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(one)

    assert {answer.status for answer in answers} == {201}
    assert len({answer.raw for answer in answers}) == 1
    first = [answer for answer in answers if REPLAYED not in answer.headers]
    again = [answer for answer in answers if answer.headers.get(REPLAYED) == "true"]
    assert (len(first), len(again)) == (1, 49)
    assert {answer.headers["original-request"] for answer in again} == {first[0].headers["request-id"]}
    assert len({answer.headers["request-id"] for answer in answers}) == 50
    assert await count(shop) == 1
    assert await count(shop, "events") == 1
    assert shop.realm.payments.reached["created"] == 1, "a replay is told to nobody"


async def test_fifty_at_once_under_one_key_make_one_merchant_and_one_settlement(shop: Shop) -> None:
    merchant = await shop.new_merchant(pays=False)
    settlements = {"settlements": [{"asset": USDC_BASE, "destination": f"eip155:8453:{WALLET}"}]}
    for path, body in (
        ("/v1/merchants", MERCHANT),
        (f"/v1/merchants/{merchant}/settlements/crypto", settlements),
    ):
        answers: list[Got] = []

        async def one(path: str = path, body: Any = body, answers: list[Got] = answers) -> None:
            answers.append(await shop.call("POST", path, body, idempotency_key="same"))

        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(one)
        assert {answer.status for answer in answers} == {201}
        assert len({answer.raw for answer in answers}) == 1
    assert await count(shop, "merchants") == 3


async def test_the_same_key_for_another_merchant_makes_another_payment(shop: Shop) -> None:
    other = await shop.new_merchant()
    one, two = await create(shop, "k"), await create(shop, "k", merchant=other)
    assert one.body["paymentId"] != two.body["paymentId"]
    assert REPLAYED not in two.headers


async def test_the_same_key_on_another_path_or_of_another_account_is_another_request(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data", live=True) as shop:
        body = MERCHANT
        ids = set()
        for key in (shop.key, shop.other_key, shop.keys["live.one"]):
            made = await shop.call("POST", "/v1/merchants", body, key=key, idempotency_key="k")
            assert (made.status, REPLAYED in made.headers) == (201, False)
            ids.add(made.body["merchant"]["id"])
        assert len(ids) == 3
        old_path = await shop.call(
            "POST", "/v1/merchant/payment", NEW, merchant_id=shop.merchant_id, idempotency_key="k"
        )
        new_path = await create(shop, "k")
        assert old_path.body["paymentId"] != new_path.body["paymentId"]


async def test_another_key_of_the_account_finds_the_answer(shop: Shop) -> None:
    first = await create(shop, "k")
    key = await shop.new_key()
    again = await shop.call(
        "POST", "/v1/payments", NEW, key=key, merchant_id=shop.merchant_id, idempotency_key="k"
    )
    assert again.raw == first.raw


SAME_BODIES = (
    b'{"amount":{"value":"2500","unit":"iso4217/USD"},"referenceId":"ORDER-1"}',
    b' {\n"referenceId" : "ORDER-1",\t"amount":{ "unit":"iso4217/USD", "value":"2500" } }\r\n',
    b'{"referenceId":"ORDER-1","amount":{"unit":"iso4217/USD","value":"2500"},"unknown":[1]}',
    b'{"referenceId":"\\u004fRDER-1","amount":{"unit":"iso4217/USD","value":"2500"}}',
    b'{"referenceId":"ORDER-1","amount":{"unit":"iso4217/USD","value":"2500"},"checkout":null,"expiresAt":null}',
)
OTHER_BODIES: tuple[dict[str, Any], ...] = (
    NEW | {"referenceId": "ORDER-2"},
    NEW | {"amount": {"unit": "iso4217/USD", "value": "2501"}},
    NEW | {"amount": {"unit": "iso4217/EUR", "value": "2500"}},
    NEW | {"checkout": {"successUrl": "https://a.example", "errorUrl": "https://b.example"}},
)


async def test_the_same_request_in_other_words_is_repeated(shop: Shop) -> None:
    first = await create(shop, "k")
    for raw in SAME_BODIES:
        again = await create(shop, "k", raw=raw)
        assert (again.status, again.raw, again.headers.get(REPLAYED)) == (201, first.raw, "true"), raw
    assert await count(shop) == 1


async def test_another_request_under_the_same_key_is_a_conflict(shop: Shop) -> None:
    first = await create(shop, "k")
    for body in OTHER_BODIES:
        found = await create(shop, "k", body)
        assert (found.status, found.code) == (409, "idempotency_conflict"), body
    assert (await create(shop, "k")).raw == first.raw
    assert await count(shop) == 1


async def test_a_refused_request_leaves_its_key_unused(shop: Shop) -> None:
    merchant = await shop.new_merchant(pays=False)
    for body in (NEW, NEW | {"referenceId": ""}):
        found = await create(shop, "k", body, merchant=merchant)
        assert found.status == 400
    await shop.register(merchant, USDC_BASE, f"eip155:8453:{WALLET}")
    made = await create(shop, "k", merchant=merchant)
    assert (made.status, REPLAYED in made.headers) == (201, False)


async def test_a_repetition_after_its_expires_at_has_passed_is_still_repeated(shop: Shop) -> None:
    body = NEW | {"expiresAt": shop.realm.clock.now_ms() // 1000 + 60}
    first = await create(shop, "k", body)
    await trio.sleep(3600)
    again = await create(shop, "k", body)
    assert (again.status, again.raw) == (201, first.raw)
    assert (await create(shop, "other", body)).code == "invalid_params"


async def test_a_repetition_is_answered_while_nothing_can_be_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await create(shop, "k")
    monkeypatch.setattr(shop.realm.db, "_failure", "the disk is full")
    again = await create(shop, "k")
    assert (again.status, again.raw, again.headers[REPLAYED]) == (201, first.raw, "true")
    assert (await create(shop, "k", NEW | {"referenceId": "ORDER-2"})).status == 409
    assert (await create(shop, "other")).status == 503


async def test_many_at_once_under_some_keys_are_a_payment_each(shop: Shop) -> None:
    answers: dict[int, list[Got]] = {number: [] for number in range(7)}

    async def one(number: int) -> None:
        key = "" if number == 0 else f"key {number}"
        reference = "ORDER-1" if len(answers[number]) < 1 else f"ORDER-{number}"
        answers[number].append(await create(shop, key, NEW | {"referenceId": reference}))

    async with trio.open_nursery() as nursery:
        for number in range(70):
            nursery.start_soon(one, number % 7)

    made = [{answer.raw for answer in found if answer.status == 201} for found in answers.values()]
    assert [len(one) for one in made] == [10, *[1] * 6]
    assert await count(shop) == 16
    assert await count(shop, "events") == 16


async def test_a_repetition_in_another_version_gives_the_same_bytes(shop: Shop) -> None:
    first = await create(shop, "k")
    again = await shop.call(
        "POST",
        "/v1/payments",
        NEW,
        merchant_id=shop.merchant_id,
        idempotency_key="k",
        service_version="2026-02-19.preview",
    )
    assert again.raw == first.raw


async def test_a_key_has_at_most_255_printable_characters(shop: Shop) -> None:
    for key in ("k" * 256, "tab\there", "é", "nul\0", "\x7f"):
        found = await create(shop, key)
        assert (found.status, found.code) == (400, "invalid_params"), key
    for key in ("k" * 255, "~ !", '"quoted"'):
        assert (await create(shop, key)).status == 201
    assert await count(shop) == 3


async def test_blanks_around_a_key_do_not_count_and_quotes_do(shop: Shop) -> None:
    plain = await create(shop, "k")
    assert (await create(shop, "  k\t")).raw == plain.raw
    assert (await create(shop, '"k"')).raw != plain.raw


async def test_an_empty_key_is_none(shop: Shop) -> None:
    for key in ("", "  "):
        assert (await create(shop, key)).status == 201
        found = await shop.call("POST", "/v1/merchants", MERCHANT, idempotency_key=key)
        assert (found.status, found.code) == (400, "missing_idempotency_key")
    assert await count(shop) == 2


async def test_a_key_is_looked_at_before_the_body(shop: Shop) -> None:
    found = await create(shop, "k" * 256, {"referenceId": 1})
    assert (found.status, found.code) == (400, "invalid_params")


async def test_a_repetition_after_a_restart_gives_the_same_bytes(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "data") as shop:
        first = await create(shop, "k")
        key, merchant = shop.key, shop.merchant_id
    async with open_shop(tmp_path / "data") as shop:
        again = await shop.call(
            "POST", "/v1/payments", NEW, key=key, merchant_id=merchant, idempotency_key="k"
        )
        assert (again.status, again.raw, again.headers[REPLAYED]) == (201, first.raw, "true")


@pytest.mark.parametrize("path", ["/v1/payments/{}/cancel", "/v1/gateway/payment/{}/cancel"])
async def test_a_cancel_is_repeated_under_its_key_and_refused_without(shop: Shop, path: str) -> None:
    target = path.format(await shop.pay())
    first = await shop.call("POST", target, {}, idempotency_key="k")
    assert first.status == 200
    bodies: tuple[Any, ...] = ({}, None, {"why": "no reason"})
    for body in bodies:
        again = await shop.call("POST", target, body, idempotency_key="k")
        assert (again.status, again.raw, again.headers[REPLAYED]) == (200, first.raw, "true")
    for refused in (
        await shop.call("POST", target, {}),
        await shop.call("POST", target, {}, idempotency_key="other"),
    ):
        assert (refused.status, refused.code) == (400, "invalid_state")


async def test_fifty_cancels_at_once_under_one_key_are_one(shop: Shop) -> None:
    payment = await shop.pay()
    answers: list[Got] = []

    async def one() -> None:
        answers.append(await shop.call("POST", f"/v1/payments/{payment}/cancel", {}, idempotency_key="k"))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(one)
    assert {answer.status for answer in answers} == {200}
    assert len({answer.raw for answer in answers}) == 1
    assert await count(shop, "events") == 2


async def test_an_app_without_an_account_has_no_keys(shop: Shop) -> None:
    target = f"/v1/gateway/payment/{await shop.pay()}/cancel"
    app = shop.realm.checkout_app_id
    statuses = [
        (await shop.call("POST", target, {}, key=None, app_id=app, client_id="c", idempotency_key="k")).status
        for _ in range(2)
    ]
    assert statuses == [200, 400]


async def test_a_refund_is_repeated_under_its_key(shop: Shop) -> None:
    payment = await shop.pay()
    option = (await shop.options(payment, [BUYER]))[0]
    await shop.confirm(payment, option["id"], "0x" + "11" * 65, query="?maxPollMs=30000")
    body = {"paymentId": payment, "note": "broken cup"}
    found = [
        await shop.call("POST", "/v1/refunds", body, merchant_id=shop.merchant_id, idempotency_key="k")
        for _ in range(2)
    ]
    assert [one.status for one in found] == [200, 200]
    assert found[0].raw == found[1].raw
    assert found[1].headers[REPLAYED] == "true"


def test_an_outcome_is_answered_with_its_own_bytes() -> None:
    fresh = outcome_answer(Outcome(201, b'{"a": 1}'))
    assert (fresh.status, fresh.body, fresh.headers) == (201, b'{"a": 1}', ())
    replay = outcome_answer(Outcome(201, b'{"a": 1}', "req_1"))
    assert replay.body == fresh.body
    assert dict(replay.headers) == {"Idempotent-Replayed": "true", "Original-Request": "req_1"}
    assert msgspec.json.decode(replay.body) == {"a": 1}
