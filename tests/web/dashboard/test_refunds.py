"""A refund: what the merchant's wallet is to send, to whom, and that it is sent and recorded once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from payd.core.refund import Repayment
from payd.core.roles import Role
from payd.store.db import Tx
from payd.store.refunds import is_refunded
from payd.web.dashboard.refunds import WalletCall, wallet_call
from tests.ledger import BUYER, CHAIN, USDC, run_sql, sell
from tests.shop import SOLANA, SOLANA_WALLET, USDC_SOLANA, Shop, open_shop
from tests.visitor import sign_in

PAYMENT = "pay_l" + "0" * 36
BY_HAND = (
    "On Solana no wallet is asked from here. Send it in your wallet, then paste the transaction id below:"
    " it is looked for on the chain before the refund is recorded."
)
ADDRESS = BUYER.rpartition(":")[2].lower()


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data", live=True) as opened:
        yield opened


async def paid(shop: Shop) -> str:
    payment = await shop.pay("R-1")
    await shop.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": "succeeded"})
    return payment


async def live_paid(shop: Shop, **more: Any) -> str:
    def one(tx: Tx) -> str:
        return sell(tx, "succeeded", id=PAYMENT, account_id=shop.account_id, **more).id

    return await shop.house.realms["live"].db.write(one)


def audited(tx: Tx) -> list[tuple[str, str]]:
    return tx.execute("SELECT actor, subject FROM audit WHERE act = 'payment.refund'").fetchall()


async def test_a_test_refund_is_a_plain_record(shop: Shop) -> None:
    payment = await paid(shop)
    visitor = await sign_in(shop, Role.SUPPORT)
    here = f"/d/test/payments/{payment}/refund"
    assert f'href="{here}"' in (await visitor.get(f"/d/test/payments/{payment}")).html
    page = await visitor.get(here)
    assert "test: nothing is sent" in page.text
    assert "no wallet is asked from here" not in page.text
    assert "refund.js" not in page.html
    assert (await visitor.post(here, {"tx": "", "note": "broken cup"})).to == f"/d/test/payments/{payment}"
    after = await visitor.get(f"/d/test/payments/{payment}")
    assert "Refund recorded broken cup" in after.text
    assert f'href="{here}"' not in after.html
    assert shop.realm.db.point(audited) == [(visitor.user_id, payment)]


async def test_a_refund_is_recorded_once_and_offered_no_second_time(shop: Shop) -> None:
    payment = await paid(shop)
    visitor = await sign_in(shop)
    here = f"/d/test/payments/{payment}/refund"
    await visitor.post(here, {"tx": "", "note": ""})
    again = await visitor.post(here, {"tx": "", "note": ""})
    assert again.status == 409
    page = await visitor.get(here)
    assert "recorded already" in page.text
    assert "Record refund" not in page.text
    assert len(shop.realm.db.point(audited)) == 1


async def test_a_wallet_is_asked_for_what_the_buyer_paid(shop: Shop) -> None:
    await live_paid(shop)
    visitor = await sign_in(shop)
    page = await visitor.get(f"/d/live/payments/{PAYMENT}/refund")
    assert "Amount 1 USDC Network Base To the buyer" in page.text
    assert 'data-chain="0x2105"' in page.html
    assert "no wallet is asked from here" not in page.text
    assert f"{ADDRESS[2:]}{1_000_000:064x}" in page.html
    sent = await visitor.get(f"/d/live/payments/{PAYMENT}/refund?tx=0x{'ab' * 32}")
    assert "refund.js" not in sent.html
    assert f'value="0x{"ab" * 32}"' in sent.html


async def test_on_solana_the_page_says_that_the_merchant_sends_and_pastes_the_transaction(shop: Shop) -> None:
    await live_paid(shop, asset=USDC_SOLANA, buyer=f"{SOLANA}:{SOLANA_WALLET}")
    visitor = await sign_in(shop)
    here = f"/d/live/payments/{PAYMENT}/refund"
    page = await visitor.get(here)
    assert f"Amount 1 USDC Network Solana To the buyer {SOLANA_WALLET}" in page.text
    assert BY_HAND in page.text
    assert "refund.js" not in page.html
    assert 'name="tx"' in page.html
    # Once it is sent, nobody is told to send it.
    assert BY_HAND not in (await visitor.get(f"{here}?tx={'1' * 88}")).text
    await shop.house.realms["live"].db.write(
        run_sql, "INSERT INTO refunds (payment_id, created_at_ms) VALUES (?, 1)", PAYMENT
    )
    assert BY_HAND not in (await visitor.get(here)).text


async def test_what_was_recorded_elsewhere_is_not_sent_again(shop: Shop) -> None:
    await live_paid(shop)
    live = shop.house.realms["live"].db
    await live.write(run_sql, "INSERT INTO refunds (payment_id, created_at_ms) VALUES (?, 1)", PAYMENT)
    assert live.point(is_refunded, PAYMENT)
    page = await (await sign_in(shop)).get(f"/d/live/payments/{PAYMENT}/refund")
    assert ("data-chain" in page.html, "recorded already" in page.text) == (False, True)


async def test_a_transaction_that_is_none_is_not_recorded(shop: Shop) -> None:
    payment = await paid(shop)
    visitor = await sign_in(shop)
    here = f"/d/test/payments/{payment}/refund"
    refused = await visitor.post(here, {"tx": "nonsense", "note": "kept"})
    assert refused.status == 400
    assert 'value="kept"' in refused.html
    assert not shop.realm.db.point(is_refunded, payment)


async def test_what_was_not_paid_is_not_paid_back(shop: Shop) -> None:
    payment = await shop.pay()
    visitor = await sign_in(shop)
    here = f"/d/test/payments/{payment}/refund"
    assert "/refund" not in (await visitor.get(f"/d/test/payments/{payment}")).html
    for found in (await visitor.get(here), await visitor.post(here, {"tx": "", "note": ""})):
        assert found.status >= 400
        assert "only a succeeded one can be refunded" in found.text


async def test_a_viewer_records_nothing(shop: Shop) -> None:
    payment = await paid(shop)
    visitor = await sign_in(shop, Role.VIEWER)
    assert "/refund" not in (await visitor.get(f"/d/test/payments/{payment}")).html


def test_a_wallets_call_is_exact() -> None:
    native = Repayment(CHAIN, f"{CHAIN}/slip44:60", 10**18, BUYER)
    assert wallet_call(native) == WalletCall("0x2105", BUYER.rpartition(":")[2], hex(10**18), "0x")
    token = wallet_call(Repayment(CHAIN, USDC, 5, BUYER))
    assert token is not None
    assert (token.to, token.value) == (USDC.rpartition(":")[2], "0x0")
    assert token.data == f"0xa9059cbb{ADDRESS[2:]:0>64}{5:064x}"
    solana = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
    assert wallet_call(Repayment(solana, f"{solana}/slip44:501", 5, f"{solana}:x" + "1" * 31)) is None
