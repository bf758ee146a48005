"""Links and transactions for wallets: what stays the same, what changes, what outlives an outage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from payd.actors.pay_requests import pay_links, payable_routes, sign_request
from payd.actors.payments import Payments
from payd.chains.simulated_actions import binding
from payd.core.errors import ChainUnavailable, InvalidParams, InvalidState, PaymentExpired
from payd.store.options import quotes_in
from payd.store.watches import known_bindings
from tests.shop import SOLANA, USDC_BASE, USDC_SOLANA, WALLET
from tests.web.solana import BUYER, SOL, SolanaShop, open_solana_shop


@pytest.fixture
async def solana(tmp_path: Path) -> AsyncIterator[SolanaShop]:
    async with open_solana_shop(tmp_path / "data") as opened:
        yield opened


def payments_of(solana: SolanaShop) -> Payments:
    return solana.shop.house.realms["live"].payments


async def test_a_link_is_the_same_while_it_lasts_and_asks_the_chain_once(solana: SolanaShop) -> None:
    payments, payment = payments_of(solana), await solana.pay()
    first = await pay_links(payments, payment)
    asked = solana.chain.asked
    solana.chain.lamports += 1
    await trio.sleep(44)
    assert await pay_links(payments, payment) == first
    assert solana.chain.asked == asked == 2


async def test_a_link_at_a_moving_price_makes_way_for_one_at_todays(solana: SolanaShop) -> None:
    payments, payment = payments_of(solana), await solana.pay()
    usdc, sol = await pay_links(payments, payment)
    solana.chain.lamports = 180_000_000
    await trio.sleep(46)
    usdc_again, sol_again = await pay_links(payments, payment)
    assert usdc_again == usdc
    assert (sol.quote.amount, sol_again.quote.amount) == (171_300_000, 180_000_000)
    assert sol_again.quote.option_id == sol.quote.option_id
    # Who pays by the old one within its time and the grace after it has paid as well.
    kept = payments.db.point(quotes_in, payment, SOL)
    old = next(quote for quote in kept if quote.amount == 171_300_000)
    assert old.covers_transfer_at(old.valid_until_ms + 120_000)
    assert not old.covers_transfer_at(old.valid_until_ms + 120_001)


async def test_a_steady_price_holds_to_the_end_without_asking_again(solana: SolanaShop) -> None:
    payments, payment = payments_of(solana), await solana.pay()
    usdc, _ = await pay_links(payments, payment)
    await trio.sleep(890)
    solana.chain.is_down = True
    assert await pay_links(payments, payment) == [usdc]


async def test_a_chain_that_is_down_is_told_only_when_there_is_no_link(solana: SolanaShop) -> None:
    payments, payment = payments_of(solana), await solana.pay()
    solana.chain.is_down = True
    with pytest.raises(ChainUnavailable):
        await pay_links(payments, payment)


async def test_an_option_for_the_account_of_nobody_is_no_link(solana: SolanaShop) -> None:
    nobody = "1" * 32
    solana.chain.holdings[nobody] = {USDC_SOLANA}
    payments, payment = payments_of(solana), await solana.pay()
    await sign_request(payments, payment, nobody)
    usdc, _ = await pay_links(payments, payment)
    assert usdc.url.startswith("solana:")


async def test_a_destination_that_is_removed_takes_its_link_with_it(solana: SolanaShop) -> None:
    payments, payment = payments_of(solana), await solana.pay()
    assert len(await pay_links(payments, payment)) == 2
    path = f"/v1/merchants/{solana.merchant_id}/settlements"
    kept = (await solana.call("GET", path, key=solana.key)).body["crypto"]
    gone = next(one["id"] for one in kept if one["asset"] == USDC_SOLANA)
    assert (await solana.call("DELETE", f"{path}/crypto/{gone}", key=solana.key)).status == 200
    assert [link.quote.asset for link in await pay_links(payments, payment)] == [SOL]
    with pytest.raises(InvalidParams, match="does not take this asset"):
        await sign_request(payments, payment, BUYER, USDC_SOLANA)


async def test_the_watch_of_a_link_is_kept_before_the_link_is_known(solana: SolanaShop) -> None:
    payments, payment = payments_of(solana), await solana.pay()
    told: list[str] = []
    payments._tell = replace(payments._tell, offered=told.append)
    await pay_links(payments, payment)
    assert known(payments, payment) == {USDC_SOLANA, SOL}
    assert told == [SOLANA]


def known(payments: Payments, payment: str) -> set[str]:
    """The assets that transfers for a payment are looked for in."""
    bindings = [binding(payment, "reference")]
    return {asset for _, asset in payments.db.point(known_bindings, bindings, SOLANA)}


async def test_what_ends_while_the_chain_is_asked_is_not_handed_out(solana: SolanaShop) -> None:
    payments, payment = payments_of(solana), await solana.pay()

    async def cancel() -> None:
        found = await solana.call("POST", f"/v1/payments/{payment}/cancel", key=solana.key)
        assert found.status == 200

    solana.chain.meanwhile = cancel
    with pytest.raises(InvalidState, match="was cancelled"):
        await pay_links(payments, payment)
    assert known(payments, payment) == set()
    again = await solana.pay("ORDER-8")
    solana.chain.meanwhile = None
    assert len(await pay_links(payments, again)) == 2


@pytest.mark.parametrize("ends", ["cancelled", "expired"])
async def test_a_transaction_for_what_ends_while_it_is_made_is_not_handed_out(
    solana: SolanaShop, ends: str
) -> None:
    """Who scanned a code sends it by himself."""
    payments, payment = payments_of(solana), await solana.pay()

    async def end() -> None:
        solana.chain.meanwhile = None
        if ends == "expired":
            await trio.sleep(900)
            return
        found = await solana.call("POST", f"/v1/payments/{payment}/cancel", key=solana.key)
        assert found.status == 200

    async def first() -> None:
        solana.chain.meanwhile = end

    solana.chain.meanwhile = first
    with pytest.raises((InvalidState, PaymentExpired), match=ends):
        await sign_request(payments, payment, BUYER)
    assert not any(quote.resolved for quote in payments.db.point(quotes_in, payment, USDC_SOLANA))


async def test_only_what_is_on_solana_can_be_paid_so(solana: SolanaShop) -> None:
    await solana.shop.register(solana.merchant_id, USDC_BASE, f"eip155:8453:{WALLET}", key=solana.key)
    payments, payment = payments_of(solana), await solana.pay()
    routes = payable_routes(payments, payments.find(payment))
    assert [route.asset_key for route in routes] == [USDC_SOLANA, SOL]
