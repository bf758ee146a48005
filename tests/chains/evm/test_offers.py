"""Offers of an EVM chain: what they cost, until when they hold, what they bind, and what is read for them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from payd.chains.base import Ask, Funds
from payd.chains.defaults import DepthPolicy
from payd.chains.evm.actions import read_actions
from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.chains.evm.offers import QUOTE_LIFETIME_MS
from payd.chains.fee_terms import FeeTerms
from payd.core.caip import AccountId, ChainId, parse_asset
from payd.core.errors import ChainUnavailable
from payd.core.payment import Payment
from payd.store.db import Database
from tests.chains.evm.scene import (
    CHAIN,
    ETH,
    ETH_ROW,
    PAYMENT_ID,
    PRICES,
    Scene,
    dai_row,
    open_scene,
    usdc_row,
)
from tests.live.anvil import Anvil
from tests.live.chain import BUYER, BUYER_2, FIRST_CONTRACT, MERCHANT, OPERATOR, STRANGER, address
from tests.live.proxy import open_proxy

pytestmark = pytest.mark.real_time

TAG = payment_tag(PAYMENT_ID)
NONCES = (authorization_nonce(PAYMENT_ID), authorization_nonce(PAYMENT_ID, "fee"))
# An account that has never held anything.
NOBODY = "0x" + "77" * 20


# Prices.


@pytest.mark.parametrize(
    ("currency", "value", "coin", "amount"),
    [
        ("USD", 2500, "usdc", 25_000_000),
        ("USD", 1, "usdc", 10_000),
        # One unit of USDC is 0.90 euros; the merchant never gets less than was asked for.
        ("EUR", 100, "usdc", 1_111_112),
        ("EUR", 90, "usdc", 1_000_000),
        ("USD", 2500, "eth", 10**16),
        ("EUR", 100, "eth", 444_444_444_444_445),
    ],
)
async def test_the_amount_is_rounded_up_to_the_smallest_unit(
    scene: Scene, currency: str, value: int, coin: str, amount: int
) -> None:
    payment = await scene.payment(value, currency)
    offer = await scene.offer(payment, ETH if coin == "eth" else scene.usdc_asset)

    assert offer is not None
    assert offer.amount == amount


@pytest.mark.parametrize(("currency", "coin"), [("JPY", "usdc"), ("USD", "eth")])
async def test_what_nobody_has_a_price_for_is_not_offered(
    realm_db: Database, anvil: Anvil, currency: str, coin: str
) -> None:
    async with open_scene(realm_db, anvil, prices={"USDC/USD": "1"}) as scene:
        payment = await scene.payment(2500, currency)

        assert await scene.offer(payment, ETH if coin == "eth" else scene.usdc_asset) is None


async def test_an_amount_that_fits_no_transfer_is_not_offered(realm_db: Database, anvil: Anvil) -> None:
    rows = [usdc_row(FIRST_CONTRACT), msgspec.structs.replace(ETH_ROW, decimals=80)]
    async with open_scene(realm_db, anvil, rows=rows) as scene:
        assert await scene.offer(await scene.payment(), ETH) is None


async def test_what_is_at_par_holds_for_the_payments_life_and_what_is_not_for_a_moment(scene: Scene) -> None:
    payment = await scene.payment()
    now_ms = await scene.now_ms()
    stable, volatile = await scene.offer(payment, scene.usdc_asset), await scene.offer(payment, ETH)

    assert stable is not None
    assert volatile is not None
    assert stable.valid_until_ms == payment.expires_at_ms
    assert now_ms <= volatile.valid_until_ms - QUOTE_LIFETIME_MS <= now_ms + 1000


async def test_a_stable_asset_in_another_currency_holds_for_a_moment(scene: Scene) -> None:
    payment = await scene.payment(2500, "EUR")
    offer = await scene.offer(payment, scene.usdc_asset)

    assert offer is not None
    assert offer.valid_until_ms < payment.expires_at_ms


async def test_no_offer_holds_for_longer_than_its_payment(scene: Scene) -> None:
    payment = await scene.payment()
    payment = msgspec.structs.replace(payment, expires_at_ms=await scene.now_ms() + 5000)
    offer = await scene.offer(payment, ETH)

    assert offer is not None
    assert offer.valid_until_ms == payment.expires_at_ms


# What is offered to whom.


async def test_an_asset_that_the_book_does_not_have_is_not_offered(scene: Scene) -> None:
    payment = await scene.payment()
    unknown = f"{CHAIN}/erc20:{address(STRANGER)}"

    assert await scene.offer(payment, unknown) is None
    assert scene.evm.display(parse_asset(unknown)) is None


async def test_an_asset_of_another_chain_is_neither_offered_nor_shown(scene: Scene) -> None:
    base = parse_asset("eip155:8453/slip44:60")

    assert scene.evm.display(base) is None
    assert await scene.offer(await scene.payment(), str(base)) is None
    assert not scene.evm.serves("eip155:8453")


async def test_a_token_with_other_decimals_than_its_row_is_not_offered(
    realm_db: Database, anvil: Anvil
) -> None:
    rows = [usdc_row(FIRST_CONTRACT, decimals=5), dai_row(FIRST_CONTRACT.lower()[:-1] + "4")]
    async with open_scene(realm_db, anvil, rows=rows) as scene:
        payment = await scene.payment()

        assert await scene.offer(payment, scene.usdc_asset) is None
        assert await scene.offer(payment, rows[1].asset) is None


@pytest.mark.parametrize(
    "account",
    [
        AccountId(CHAIN, address(MERCHANT)),
        AccountId(CHAIN, FIRST_CONTRACT),
        AccountId(CHAIN, "0x12"),
        AccountId(CHAIN, address(BUYER)[:-1] + ("e" if address(BUYER)[-1] != "e" else "f")),
        AccountId(ChainId("eip155", "1"), address(BUYER)),
        AccountId(ChainId("solana", "31337"), address(BUYER)),
    ],
    ids=[
        "the merchant itself",
        "the token",
        "no address",
        "a wrong checksum",
        "another chain",
        "another kind",
    ],
)
async def test_accounts_that_cannot_pay_are_offered_nothing(scene: Scene, account: AccountId) -> None:
    payment = await scene.payment()
    destination = f"{CHAIN}:{address(MERCHANT)}"
    offer = await scene.evm.offer(
        payment, parse_asset(scene.usdc_asset), account, destination, await scene.now_ms()
    )

    assert offer is None


async def test_an_offer_binds_whatever_may_pay_it(scene: Scene) -> None:
    payment = await scene.payment()
    offers = [await scene.offer(payment, asset) for asset in (scene.usdc_asset, scene.dai_asset, ETH)]

    assert [offer.bindings for offer in offers if offer is not None] == [(TAG, *NONCES), (TAG,), (TAG,)]


@pytest.mark.parametrize(
    ("depth", "eta_s"),
    [(1, 1), (12, 12), ("finalized", 900), ({"0": 2, "20": 30}, 30), ({"0": 2, "30": 30}, 2)],
)
async def test_the_time_that_is_told_is_that_of_the_payments_depth(
    realm_db: Database, anvil: Anvil, depth: Any, eta_s: int
) -> None:
    async with open_scene(realm_db, anvil, depth=DepthPolicy.of(depth)) as scene:
        offer = await scene.offer(await scene.payment(), scene.usdc_asset)

        assert offer is not None
        assert offer.eta_s == eta_s


# The fee.


@pytest.mark.parametrize(
    ("share", "base_usd", "prices", "value", "fee"),
    [
        ("1/100", "0", {}, 2500, 250_000),
        ("0", "0.3", {}, 2500, 300_000),
        ("29/1000", "0.3", {}, 2500, 1_025_000),
        # Down, to the last unit.
        ("1/3", "0", {}, 1, 3333),
        # It may not be all there is, nor can it be worked out without a price of the dollar.
        ("0", "0.3", {}, 30, 0),
        ("0", "0.3", {"USDC/EUR": "0.9"}, 2500, 0),
    ],
)
async def test_a_fee_is_a_share_and_a_base_in_dollars_rounded_down(
    realm_db: Database,
    anvil: Anvil,
    share: str,
    base_usd: str,
    prices: dict[str, str],
    value: int,
    fee: int,
) -> None:
    terms = FeeTerms(Fraction(share), Fraction(base_usd), address(OPERATOR).lower())
    async with open_scene(realm_db, anvil, fee=terms, prices=prices or PRICES) as scene:
        payment = await scene.payment(value, "EUR" if prices else "USD")
        offer = await scene.offer(payment, scene.usdc_asset)

        assert offer is not None
        asked = read_actions(offer.actions)
        assert isinstance(asked, tuple)
        assert [leg.value for leg in asked[1:]] == ([fee] if fee else [])
        assert sum(leg.value for leg in asked) == offer.amount


@pytest.mark.parametrize("pays", [True, False])
async def test_the_operator_takes_no_fee_of_what_is_paid_by_or_to_itself(
    realm_db: Database, anvil: Anvil, pays: bool
) -> None:
    operator = address(OPERATOR)
    terms = FeeTerms(Fraction(1, 100), Fraction(0), operator.lower(), mandatory=True)
    async with open_scene(realm_db, anvil, fee=terms) as scene:
        await scene.chain.mint(scene.usdc, operator, 25_000_000)
        payment = await scene.payment()
        parties = {"buyer": operator} if pays else {"merchant": operator}
        offer = await scene.offer(payment, scene.usdc_asset, **parties)

        assert offer is not None
        asked = read_actions(offer.actions)
        assert isinstance(asked, tuple)
        assert [leg.value for leg in asked] == [offer.amount]


# What it costs.


async def asks(scene: Scene, *places: int) -> list[Ask]:
    destination = f"{CHAIN}:{address(MERCHANT)}"
    return [
        Ask(parse_asset(asset), AccountId(CHAIN, address(place)), destination)
        for asset in (scene.usdc_asset, scene.dai_asset, ETH)
        for place in places
    ]


async def test_what_was_read_ahead_is_not_read_again(realm_db: Database, anvil: Anvil) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment, now_ms = await scene.payment(), await scene.now_ms()
        wanted = await asks(scene, BUYER, BUYER_2)
        await scene.evm.read_ahead(payment, wanted, now_ms)
        # The chain's id, the tokens against their rows, the accounts.
        assert proxy.posts == 3
        for ask in wanted:
            assert await scene.evm.offer(payment, ask.asset, ask.account, ask.destination, now_ms)
        assert proxy.posts == 3
        before = proxy.posts
        later_ms = now_ms + 6000
        await scene.evm.read_ahead(payment, wanted, later_ms)
        for ask in wanted:
            assert await scene.evm.offer(payment, ask.asset, ask.account, ask.destination, later_ms)

        assert proxy.posts == before + 1


async def test_reading_ahead_for_nothing_asks_nobody(realm_db: Database, anvil: Anvil) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment = await scene.payment()
        await scene.evm.read_ahead(payment, [], await scene.now_ms())
        await scene.evm.read_ahead(payment, await asks(scene, BUYER), payment.expires_at_ms)
        await scene.evm.read_ahead(payment, await asks(scene, MERCHANT), await scene.now_ms())

        assert proxy.posts == 0


async def test_a_chain_without_nodes_is_unavailable_and_not_without_offers(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment: Payment = await scene.payment()
        proxy.status = 503
        with pytest.raises(ChainUnavailable):
            await scene.evm.read_ahead(payment, await asks(scene, BUYER), await scene.now_ms())
        with pytest.raises(ChainUnavailable):
            await scene.offer(payment, scene.usdc_asset)


# What accounts have.


async def test_an_account_without_funds_is_told_what_it_would_need(scene: Scene) -> None:
    payment = await scene.payment()
    for asset, amount in ((scene.usdc_asset, 25_000_000), (ETH, 10**16)):
        funds = await funds_of(scene, payment, asset, NOBODY)
        assert funds is not None
        assert (funds.amount, funds.coin) == (amount, ETH)
        assert funds.has < funds.amount
        assert funds.fee > 0


async def test_an_account_with_funds_shows_them_in_the_asset_and_in_coins(scene: Scene) -> None:
    funds = await funds_of(scene, await scene.payment(), scene.usdc_asset, address(BUYER))
    assert funds is not None
    assert funds.has >= funds.amount
    assert funds.coins > funds.fee


async def test_of_what_has_no_price_there_is_nothing_to_say(scene: Scene) -> None:
    assert await funds_of(scene, await scene.payment(2500, "JPY"), scene.usdc_asset, address(BUYER)) is None


async def test_of_an_asset_that_is_not_in_the_book_there_is_nothing_to_say(scene: Scene) -> None:
    unknown = f"{CHAIN}/erc20:{address(STRANGER)}"
    assert await funds_of(scene, await scene.payment(), unknown, address(BUYER)) is None


async def funds_of(scene: Scene, payment: Payment, asset: str, holder: str) -> Funds | None:
    account = AccountId(CHAIN, holder)
    destination = f"{CHAIN}:{address(MERCHANT)}"
    return await scene.evm.funds(payment, parse_asset(asset), account, destination, await scene.now_ms())
