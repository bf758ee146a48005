"""Refunds: what is recorded was possible, and where a transaction is named, looked for."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from payd.core.errors import InvalidParams, ParamsValidation, PaymentNotSucceeded
from payd.core.payment import Payment
from payd.store.db import Tx
from payd.web.refunds import NOTE_MAX, TX_ID_MAX, check_refund, check_words
from tests.ledger import sell
from tests.shop import APPROVES, Got, Shop

TX = "0x" + "ab" * 32
SETTLES_LATE = "eip155:8453:0x0000000000000000000000000000000000000005"


class Looking:
    """A chain that is asked about one transaction after the other."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def serves(self, chain: str) -> bool:
        return chain == "eip155:8453"

    async def refund_problem(self, payment: Payment, tx_id: str) -> str | None:
        await trio.lowlevel.checkpoint()
        self.asked.append(tx_id)
        return None if tx_id == "0xgood" else "the transaction pays nothing"


@pytest.fixture
def looking(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Looking:
    chain = Looking()
    monkeypatch.setattr(shop.realm.payments, "chain_of", lambda name: chain if chain.serves(name) else None)
    return chain


async def sold(shop: Shop, state: str, **more: Any) -> Payment:
    def step(tx: Tx) -> Payment:
        return sell(tx, state, **more)

    return await shop.realm.db.write(step)


async def test_a_transaction_that_pays_nothing_back_is_refused(shop: Shop, looking: Looking) -> None:
    payment = await sold(shop, "settled")
    await check_refund(shop.realm, payment, "0xgood")
    with pytest.raises(InvalidParams, match="pays nothing"):
        await check_refund(shop.realm, payment, "0xbad")

    assert looking.asked == ["0xgood", "0xbad"]


async def test_what_was_recorded_is_answered_again_without_asking_the_chain(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await shop.pay()
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    looking: Looking | None = Looking()
    monkeypatch.setattr(shop.realm.payments, "chain_of", lambda name: looking)
    refund = partial(
        shop.call,
        "POST",
        "/v1/refunds",
        {"paymentId": payment, "txId": "0xgood"},
        merchant_id=shop.merchant_id,
        idempotency_key="k",
    )
    first = await refund()
    assert first.status == 200, first.body
    looking = None
    again = await refund()

    assert (again.status, again.raw) == (200, first.raw)
    assert again.headers["idempotent-replayed"] == "true"


async def test_without_a_transaction_no_chain_is_asked(shop: Shop, looking: Looking) -> None:
    await check_refund(shop.realm, await sold(shop, "succeeded"), None)
    assert looking.asked == []


async def test_a_chain_that_is_gone_cannot_be_asked(shop: Shop, looking: Looking) -> None:
    payment = await sold(shop, "succeeded", asset="eip155:1/slip44:60", buyer="eip155:1:0x1")
    with pytest.raises(InvalidParams, match="not configured"):
        await check_refund(shop.realm, payment, "0xgood")


@pytest.mark.parametrize("state", ["requires_action", "processing", "failed", "expired", "cancelled"])
async def test_only_what_was_paid_is_paid_back(shop: Shop, looking: Looking, state: str) -> None:
    with pytest.raises(PaymentNotSucceeded):
        await check_refund(shop.realm, await sold(shop, state), "0xgood")
    assert looking.asked == []


@pytest.mark.parametrize(
    ("tx_id", "note", "field"),
    [
        ("", None, "txId"),
        ("x" * (TX_ID_MAX + 1), None, "txId"),
        ("a\nb", None, "txId"),
        (None, "n" * (NOTE_MAX + 1), "note"),
    ],
)
def test_words_have_bounds(tx_id: str | None, note: str | None, field: str) -> None:
    check_words("x" * TX_ID_MAX, "n" * NOTE_MAX)
    with pytest.raises(ParamsValidation) as refused:
        check_words(tx_id, note)
    assert [issue.field for issue in refused.value.issues] == [field]


async def paid_by(shop: Shop, account: str) -> str:
    payment = await shop.pay()
    got = await shop.call("POST", f"/v1/gateway/payment/{payment}/options", [account])
    option = got.body["options"][0]["id"]
    results = [{"type": "walletRpc", "data": ["0x" + "11" * 65]}]
    confirm = {"optionId": option, "results": results}
    got = await shop.call("POST", f"/v1/gateway/payment/{payment}/confirm", confirm)
    assert got.status == 200, got.body
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    return payment


async def record(shop: Shop, payment: str, tx_id: str | None, note: str | None = None) -> Got:
    body = {"paymentId": payment, "txId": tx_id, "note": note}
    return await shop.call("POST", "/v1/refunds", body, merchant_id=shop.merchant_id)


async def test_one_transaction_is_the_refund_of_one_of_a_buyers_payments(shop: Shop) -> None:
    first, second, other = [await paid_by(shop, one) for one in (APPROVES, APPROVES, SETTLES_LATE)]
    assert (await record(shop, first, TX)).status == 200
    refused = await record(shop, second, TX.upper().replace("X", "x"))

    assert (refused.status, refused.code) == (400, "invalid_params")
    assert first in refused.body["message"]
    # Some pay several buyers with one transaction.
    assert (await record(shop, other, TX)).status == 200
    assert (await record(shop, second, None, f"with {first}")).status == 200


async def test_a_transaction_is_recorded_as_its_chain_writes_it(shop: Shop) -> None:
    payment = await paid_by(shop, APPROVES)
    assert (await record(shop, payment, TX.upper().replace("X", "x"))).status == 200

    assert (await shop.call("GET", f"/v1/payments/{payment}")).body["refund"]["txId"] == TX
