"""A refund: what the merchant's wallet is to send, to whom, and that it is sent and recorded once."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from payd.chains.base import BringsRefunds, Brought, Unsigned
from payd.core.caip import AccountId
from payd.core.errors import ChainUnavailable, InvalidState, PaydError
from payd.core.payment import Payment
from payd.core.refund import Repayment
from payd.core.roles import Role
from payd.store.db import Tx
from payd.store.refunds import is_refunded
from payd.web.dashboard.refunds import WalletCall, wallet_call
from tests.ledger import BUYER, CHAIN, USDC, run_sql, sell
from tests.shop import SOLANA, SOLANA_WALLET, USDC_SOLANA, Shop, open_shop
from tests.visitor import Page, Visitor, sign_in
from tests.web.solana import PlayedSolana

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


class Bringing(PlayedSolana):
    """A chain to which others bring what wallets sign.

    Attributes:
        wrote: What was written, and for which account.
        brought: What came back signed.
        refusal: Why nothing is written.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wrote: list[tuple[str, str]] = []
        self.brought: list[tuple[Unsigned, str]] = []
        self.refusal: PaydError | None = None

    async def write_refund(self, payment: Payment, account: AccountId, now_ms: int) -> Unsigned:
        if self.refusal is not None:
            raise self.refusal
        self.wrote.append((payment.id, str(account)))
        return Unsigned(f"{payment.id} {account.address}".encode(), 7)

    async def bring_refund(self, payment: Payment, unsigned: Unsigned, signed: str, now_ms: int) -> Brought:
        assert unsigned.raw.startswith(payment.id.encode())
        self.brought.append((unsigned, signed))
        return Brought("5" * 88, "sent")


@pytest.fixture
def chain(shop: Shop) -> Bringing:
    payments, made = shop.house.realms["live"].payments, Bringing()
    payments.chains = (*payments.chains, made)
    return made


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
    assert 'data-chain="eip155:8453"' in page.html
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
    assert wallet_call(native) == WalletCall(BUYER.rpartition(":")[2], hex(10**18), "0x")
    token = wallet_call(Repayment(CHAIN, USDC, 5, BUYER))
    assert token is not None
    assert (token.to, token.value) == (USDC.rpartition(":")[2], "0x0")
    assert token.data == f"0xa9059cbb{ADDRESS[2:]:0>64}{5:064x}"
    solana = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
    assert wallet_call(Repayment(solana, f"{solana}/slip44:501", 5, f"{solana}:x" + "1" * 31)) is None


async def solana_paid(shop: Shop, **more: Any) -> str:
    await live_paid(shop, asset=USDC_SOLANA, buyer=f"{SOLANA}:{SOLANA_WALLET}", **more)
    return f"/d/live/payments/{PAYMENT}/refund"


async def told(visitor: Visitor, path: str, **values: str) -> Page:
    """What the page's script hears."""
    return await visitor.post(path, values, headers={"accept": "application/json"})


def code(page: Page) -> tuple[int, str]:
    return page.status, page.got.body["code"]


async def test_where_wallets_only_sign_the_page_asks_one_and_says_which_account_was_paid(
    shop: Shop, chain: Bringing
) -> None:
    assert isinstance(chain, BringsRefunds)
    here = await solana_paid(shop)
    visitor = await sign_in(shop)
    page = await visitor.get(here)
    assert f'data-chain="{SOLANA}"' in page.html
    assert "refund.js" in page.html
    assert ("data-to" in page.html, "no wallet is asked from here" in page.text) == (False, False)
    assert 'data-paid=""' in page.html
    # Once something was sent, no wallet is asked from here.
    assert "refund.js" not in (await visitor.get(f"{here}?tx={'1' * 88}")).html


async def test_what_is_written_for_a_wallet_comes_back_signed_and_is_brought(
    shop: Shop, chain: Bringing
) -> None:
    here = await solana_paid(shop)
    visitor = await sign_in(shop, Role.SUPPORT)
    wrote = await told(visitor, f"{here}/transaction", account="A" * 44)
    assert chain.wrote == [(PAYMENT, f"{SOLANA}:{'A' * 44}")]
    raw = base64.b64decode(wrote.got.body["transaction"])
    assert raw == f"{PAYMENT} {'A' * 44}".encode()
    sealed = wrote.got.body["sealed"]
    # Whoever is signed in brings it, as after a new login; twice, it is for the chain to land it once.
    for one in (visitor, await sign_in(shop, Role.OWNER)):
        found = await told(one, f"{here}/send", sealed=sealed, signed="c2lnbmVk")
        assert found.got.body == {"txId": "5" * 88, "state": "sent"}
    assert chain.brought == [(Unsigned(raw, 7), "c2lnbmVk")] * 2
    assert not shop.house.realms["live"].db.point(is_refunded, PAYMENT)


async def test_only_what_was_written_for_this_payment_is_brought(shop: Shop, chain: Bringing) -> None:
    here = await solana_paid(shop)
    visitor = await sign_in(shop)
    sealed = (await told(visitor, f"{here}/transaction", account="A" * 44)).got.body["sealed"]
    other = PAYMENT[:-1] + "1"

    def one(tx: Tx) -> str:
        buyer = f"{SOLANA}:{SOLANA_WALLET}"
        return sell(tx, "succeeded", id=other, account_id=shop.account_id, asset=USDC_SOLANA, buyer=buyer).id

    await shop.house.realms["live"].db.write(one)
    changed = sealed[:-2] + ("00" if sealed[-2:] != "00" else "11")
    for path, text in ((here, changed), (here, ""), (here, "zz"), (here.replace(PAYMENT, other), sealed)):
        found = await told(visitor, f"{path}/send", sealed=text, signed="c2lnbmVk")
        assert code(found) == (400, "invalid_params")
    assert chain.brought == []


async def test_once_a_refund_is_recorded_nothing_is_written_or_brought(shop: Shop, chain: Bringing) -> None:
    here = await solana_paid(shop)
    visitor = await sign_in(shop)
    sealed = (await told(visitor, f"{here}/transaction", account="A" * 44)).got.body["sealed"]
    live = shop.house.realms["live"].db
    await live.write(run_sql, "INSERT INTO refunds (payment_id, created_at_ms) VALUES (?, 1)", PAYMENT)
    assert code(await told(visitor, f"{here}/transaction", account="A" * 44)) == (409, "already_refunded")
    assert code(await told(visitor, f"{here}/send", sealed=sealed, signed="x")) == (409, "already_refunded")
    assert (len(chain.wrote), chain.brought) == (1, [])


async def test_why_nothing_is_written_is_told_in_words(shop: Shop, chain: Bringing) -> None:
    here = await solana_paid(shop)
    visitor = await sign_in(shop)
    for refusal, status in ((InvalidState("Not enough."), 400), (ChainUnavailable("No node."), 503)):
        chain.refusal = refusal
        found = await told(visitor, f"{here}/transaction", account="A" * 44)
        assert (found.status, found.got.body["message"]) == (status, refusal.message)
    # As a page for who sends it without the script.
    page = await visitor.post(f"{here}/transaction", {"account": "A" * 44})
    assert "No node." in page.text


async def test_who_may_not_pay_back_or_what_wallets_send_themselves_is_refused(
    shop: Shop, chain: Bringing
) -> None:
    here = await solana_paid(shop)
    viewer, owner = await sign_in(shop, Role.VIEWER), await sign_in(shop)
    test_payment = await paid(shop)
    for name in ("transaction", "send"):
        assert code(await told(viewer, f"{here}/{name}", account="A" * 44)) == (403, "forbidden")
        in_test = f"/d/test/payments/{test_payment}/refund/{name}"
        assert code(await told(owner, in_test, account="A" * 44)) == (400, "invalid_state")
        unpaid = f"/d/test/payments/{await shop.pay()}/refund/{name}"
        assert code(await told(owner, unpaid, account="A" * 44)) == (400, "payment_not_succeeded")
        for hostile in (here.replace("live", "test"), here.replace(PAYMENT, "pay_l" + "9" * 36)):
            assert code(await told(owner, f"{hostile}/{name}")) == (404, "payment_not_found")
    assert (chain.wrote, chain.brought) == ([], [])


async def test_on_an_evm_chain_the_server_writes_and_brings_nothing(shop: Shop, chain: Bringing) -> None:
    await live_paid(shop)
    owner = await sign_in(shop)
    for name in ("transaction", "send"):
        found = await told(owner, f"/d/live/payments/{PAYMENT}/refund/{name}", account=ADDRESS)
        assert code(found) == (400, "invalid_state")
    assert (chain.wrote, chain.brought) == ([], [])
