"""Options and quotes: what was handed out stays payable, what is gone is not offered."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec
import pytest
import trio

from payd.actors.offers import fetch_actions, offer_options
from payd.chains.base import Ask, Resolved
from payd.chains.rates import RateTable
from payd.chains.simulated import SimulatedChain
from payd.core.caip import parse_account
from payd.core.errors import ChainUnavailable, InvalidParams, PaymentExpired, QuoteExpired, RateLimited
from payd.core.option import Offer, Quote, WalletRpc
from payd.core.payment import Payment
from payd.store.options import quotes_of
from payd.store.watches import Watch, chains_watched, find_watch
from tests.shop import (
    BUYER,
    ETH_BASE,
    SOLANA,
    SOLANA_WALLET,
    USDC_BASE,
    USDC_SOLANA,
    USDT_MAINNET,
    WALLET,
    Shop,
)

OTHER = "0x90F79bf6EB2c4f870365E785982E1f101E93b906"
MAINNET_BUYER = "eip155:1:0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"


async def quotes(shop: Shop, payment: str, *accounts: str) -> list[Quote]:
    found = await offer_options(
        shop.realm.payments, payment, [parse_account(account) for account in accounts]
    )
    assert found is not None
    return found


async def test_asking_again_gives_the_same_ids_and_stores_no_second_quote(shop: Shop) -> None:
    payment = await shop.pay()
    first = await quotes(shop, payment, BUYER)
    again = await quotes(shop, payment, BUYER)

    assert first == again
    assert len(shop.realm.db.point(quotes_of, payment, first[0].option_id)) == 1


async def test_each_account_has_its_own_option(shop: Shop) -> None:
    payment = await shop.pay()
    both = await quotes(shop, payment, BUYER, f"eip155:8453:{OTHER.lower()}")

    assert len({quote.option_id for quote in both}) == 2
    assert {quote.account.lower() for quote in both} == {BUYER, f"eip155:8453:{OTHER.lower()}"}


async def test_a_changed_destination_does_not_touch_payments_that_were_offered_the_old_one(
    shop: Shop,
) -> None:
    offered, fresh = await shop.pay(), await shop.pay()
    await quotes(shop, offered, BUYER)
    listed = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    settlement = listed.body["crypto"][0]["id"]
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{settlement}"
    changed = await shop.call("PUT", path, {"destination": f"eip155:8453:{OTHER}"})
    assert changed.status == 200

    assert [quote.destination for quote in await quotes(shop, offered, BUYER)] == [f"eip155:8453:{WALLET}"]
    assert [quote.destination for quote in await quotes(shop, fresh, BUYER)] == [f"eip155:8453:{OTHER}"]


async def test_a_removed_destination_is_offered_no_more(shop: Shop) -> None:
    await shop.register(shop.merchant_id, ETH_BASE, f"eip155:8453:{WALLET}")
    payment = await shop.pay()
    assert len(await quotes(shop, payment, BUYER)) == 2
    listed = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{listed.body['crypto'][0]['id']}"
    await shop.call("DELETE", path)

    assert [quote.asset for quote in await quotes(shop, payment, BUYER)] == [ETH_BASE]


async def test_a_destination_that_is_replaced_while_options_are_made_gets_no_money(shop: Shop) -> None:
    payment = await shop.pay()
    listed = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{listed.body['crypto'][0]['id']}"
    chain: Any = shop.realm.payments.chains[0]
    offer = chain.offer

    async def offer_late(*args: Any) -> Offer | None:
        changed = await shop.call("PUT", path, {"destination": f"eip155:8453:{OTHER}"})
        assert changed.status == 200
        made: Offer | None = await offer(*args)
        return made

    chain.offer = offer_late
    assert await quotes(shop, payment, BUYER) == []
    chain.offer = offer
    assert [quote.destination for quote in await quotes(shop, payment, BUYER)] == [f"eip155:8453:{OTHER}"]


async def test_a_removed_destination_is_not_offered_again_when_its_asset_is_registered_again(
    shop: Shop,
) -> None:
    offered, fresh = await shop.pay(), await shop.pay()
    await quotes(shop, offered, BUYER)
    listed = await shop.call("GET", f"/v1/merchants/{shop.merchant_id}/settlements")
    path = f"/v1/merchants/{shop.merchant_id}/settlements/crypto/{listed.body['crypto'][0]['id']}"
    await shop.call("DELETE", path)
    await shop.register(shop.merchant_id, USDC_BASE, f"eip155:8453:{OTHER}")

    assert await quotes(shop, offered, BUYER) == []
    assert [quote.destination for quote in await quotes(shop, fresh, BUYER)] == [f"eip155:8453:{OTHER}"]


async def test_a_merchant_that_is_gone_offers_nothing(shop: Shop) -> None:
    payment = await shop.pay()
    await quotes(shop, payment, BUYER)
    assert (await shop.call("DELETE", f"/v1/merchants/{shop.merchant_id}")).status == 200

    assert await quotes(shop, payment, BUYER) == []


async def test_an_account_has_one_option_whichever_way_it_is_spelled(shop: Shop) -> None:
    payment = await shop.pay()
    (first,) = await quotes(shop, payment, f"eip155:8453:{OTHER}")
    (again,) = await quotes(shop, payment, f"eip155:8453:{OTHER.lower()}")

    assert again.option_id == first.option_id
    assert (first.account, again.account) == (f"eip155:8453:{OTHER}", f"eip155:8453:{OTHER.lower()}")


async def test_a_payment_that_is_full_still_gives_the_options_it_has(shop: Shop) -> None:
    payment = await shop.pay()
    (mine,) = await quotes(shop, payment, BUYER)
    for block in range(4):
        accounts = [f"eip155:8453:0x{0x10000 + block * 50 + number:040x}" for number in range(50)]
        await quotes(shop, payment, *accounts)
    stranger = f"eip155:8453:0x{0x20000:040x}"

    assert await quotes(shop, payment, stranger, BUYER) == [mine]
    with pytest.raises(RateLimited):
        await quotes(shop, payment, stranger)


async def test_accounts_on_chains_that_the_merchant_does_not_take_get_no_option(shop: Shop) -> None:
    payment = await shop.pay()
    assert await quotes(shop, payment, "eip155:10:0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc") == []


async def test_an_expired_payment_is_refused_even_before_its_actor_has_said_so(shop: Shop) -> None:
    payment = await shop.pay()
    shop.realm.payments.tending.deadlines.reload = lambda: None  # type: ignore[method-assign]
    await trio.sleep(900)

    with pytest.raises(PaymentExpired):
        await quotes(shop, payment, BUYER)


async def test_a_build_action_resolves_into_two_calls_and_is_handed_out_once(shop: Shop) -> None:
    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    payment = await shop.pay()
    (quote,) = await quotes(shop, payment, MAINNET_BUYER)
    (build,) = quote.actions
    assert not isinstance(build, WalletRpc)

    calls = await fetch_actions(shop.realm.payments, payment, quote.option_id, build.data)
    again = await fetch_actions(shop.realm.payments, payment, quote.option_id, build.data)

    assert [call.method for call in calls] == ["eth_sendTransaction", "eth_signTypedData_v4"]
    assert calls == again
    assert len(shop.realm.db.point(quotes_of, payment, quote.option_id)) == 2


async def test_calls_that_are_good_for_a_while_only_are_handed_out_for_no_longer(shop: Shop) -> None:
    from tests.shop import SIGNATURE, TX_HASH

    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    payment = await shop.pay()
    (quote,) = await quotes(shop, payment, MAINNET_BUYER)
    (build,) = quote.actions
    assert not isinstance(build, WalletRpc)
    chain = shop.realm.payments.chain_of("eip155:1")
    assert chain is not None
    resolve, until_ms = chain.resolve, shop.realm.payments.clock.now_ms() + 5_000

    async def for_a_while(payment: Payment, quote: Quote, data: str, now_ms: int) -> Resolved:
        return Resolved((await resolve(payment, quote, data, now_ms)).calls, until_ms)

    chain.resolve = for_a_while  # type: ignore[method-assign]
    await fetch_actions(shop.realm.payments, payment, quote.option_id, build.data)
    resolved, unresolved = shop.realm.db.point(quotes_of, payment, quote.option_id)
    assert resolved.valid_until_ms == until_ms < unresolved.valid_until_ms == quote.valid_until_ms
    await trio.sleep(6)

    late = await shop.confirm(payment, quote.option_id, TX_HASH, SIGNATURE)
    assert (late.status, late.code) == (400, "quote_expired")


async def test_a_resolved_build_is_paid_with_both_results_in_order(shop: Shop) -> None:
    from tests.shop import SIGNATURE, TX_HASH

    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    payment = await shop.pay()
    (quote,) = await quotes(shop, payment, MAINNET_BUYER)
    early = await shop.confirm(payment, quote.option_id, TX_HASH, SIGNATURE)
    assert (early.status, early.code) == (400, "invalid_params")

    (build,) = quote.actions
    assert not isinstance(build, WalletRpc)
    await fetch_actions(shop.realm.payments, payment, quote.option_id, build.data)
    paid = await shop.confirm(payment, quote.option_id, TX_HASH, SIGNATURE)
    assert (paid.status, paid.body["status"]) == (200, "processing")


async def test_results_of_a_build_in_the_wrong_order_fail_the_payment(shop: Shop) -> None:
    from tests.shop import SIGNATURE, TX_HASH

    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    payment = await shop.pay()
    (quote,) = await quotes(shop, payment, MAINNET_BUYER)
    (build,) = quote.actions
    assert not isinstance(build, WalletRpc)
    await fetch_actions(shop.realm.payments, payment, quote.option_id, build.data)

    swapped = await shop.confirm(payment, quote.option_id, SIGNATURE, TX_HASH)

    assert (swapped.status, swapped.body["status"]) == (200, "failed")
    hints = shop.realm.db.point(
        lambda tx: tx.execute("SELECT hash FROM hints WHERE payment_id = ?", (payment,)).fetchall()
    )
    assert hints == [(TX_HASH,)]


async def test_fetch_refuses_wrong_data_inline_options_and_stale_quotes(shop: Shop) -> None:
    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    payment = await shop.pay()
    inline = (await quotes(shop, payment, BUYER))[0]
    built = (await quotes(shop, payment, MAINNET_BUYER))[0]
    payments = shop.realm.payments

    with pytest.raises(InvalidParams):
        await fetch_actions(payments, payment, inline.option_id, "")
    with pytest.raises(InvalidParams):
        await fetch_actions(payments, payment, built.option_id, "somebody else's")
    with pytest.raises(InvalidParams):
        await fetch_actions(payments, payment, "opt_nobody", "x")
    stale = quotes_made_stale(shop, payment, built.option_id)
    with pytest.raises(QuoteExpired):
        await fetch_actions(payments, payment, stale, "x")


def quotes_made_stale(shop: Shop, payment: str, option_id: str) -> str:
    """Let every quote of an option have ended; gives its id back."""
    with closing(sqlite3.connect(shop.folder / "test.db")) as tx, tx:
        tx.execute("UPDATE quotes SET valid_until_ms = 0 WHERE payment_id = ?", (payment,))
    return option_id


async def test_at_most_fifty_options_an_answer(shop: Shop) -> None:
    payment = await shop.pay()
    accounts = [f"eip155:8453:0x{number:040x}" for number in range(0x1000, 0x1000 + 60)]

    assert len(await quotes(shop, payment, *accounts)) == 50


async def test_an_account_on_a_chain_by_its_other_name_gets_the_same_options(shop: Shop) -> None:
    await shop.register(shop.merchant_id, USDC_SOLANA, f"{SOLANA}:{SOLANA_WALLET}")
    payment = await shop.pay()
    account = "4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi"

    assert len(await quotes(shop, payment, f"{SOLANA}:{account}")) == 1
    assert len(await quotes(shop, payment, f"solana:mainnet:{account}")) == 1


async def test_nodes_that_are_down_take_nothing_from_other_chains(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await shop.pay()
    chain = shop.realm.payments.chains[0]

    async def down(payment: Payment, asks: Sequence[Ask], now_ms: int) -> None:
        raise ChainUnavailable("No node of eip155:8453 answers.")

    monkeypatch.setattr(chain, "read_ahead", down)
    refused = await shop.call("POST", f"/v1/gateway/payment/{payment}/options", [BUYER])
    assert (refused.status, refused.code) == (503, "internal_error")
    assert int(refused.headers["retry-after"]) > 0

    other = SimulatedChain(1, 1, RateTable())
    monkeypatch.setattr(other, "serves", lambda name: name == "eip155:1")
    monkeypatch.setattr(shop.realm.payments, "chains", (other, chain))
    await shop.register(shop.merchant_id, USDT_MAINNET, f"eip155:1:{WALLET}")
    offered = await shop.options(payment, [BUYER, BUYER.replace("8453", "1")])
    assert [option["account"] for option in offered] == [BUYER.replace("8453", "1")]


async def test_what_an_offer_binds_is_watched_for_from_its_hand_out_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await shop.pay()
    chain = shop.realm.payments.chains[0]
    real = chain.offer

    async def bound(*args: Any) -> Offer | None:
        offer = await real(*args)
        return None if offer is None else msgspec.structs.replace(offer, bindings=(b"t" * 32, b"n" * 32))

    monkeypatch.setattr(chain, "offer", bound)
    await shop.options(payment, [BUYER])
    await shop.options(payment, [BUYER])

    watch = shop.realm.db.point(find_watch, b"n" * 32, USDC_BASE.lower())
    expires_at_ms = shop.realm.payments.find(payment).expires_at_ms
    to = f"eip155:8453:{WALLET.lower()}"
    assert watch == Watch(b"n" * 32, USDC_BASE.lower(), payment, "eip155:8453", to, expires_at_ms)
    assert shop.realm.db.point(chains_watched, [payment]) == [(payment, "eip155:8453")]
