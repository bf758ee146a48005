"""Ways to pay, by what an account is and has: a key's, a smart wallet's, a delegated one's; and fees."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from payd.chains.assets import Domain
from payd.chains.evm.actions import Sending, read_actions
from payd.chains.evm.authorization import Authorization
from payd.chains.evm.binding import authorization_nonce, payment_tag, tagged_transfer
from payd.chains.evm.ways import AUTHORIZATION_GRACE_S, COIN_GAS, TOKEN_GAS
from payd.chains.fee_terms import FeeTerms
from payd.core.option import Offer
from payd.store.db import Database
from tests.chains.evm.scene import ETH, MINTED, PAYMENT_ID, Scene, open_scene, usdc_row
from tests.live.anvil import Anvil
from tests.live.chain import (
    BUYER,
    FIRST_CONTRACT,
    MERCHANT,
    MULTICALL3,
    OPERATOR,
    STRANGER,
    address,
)

pytestmark = pytest.mark.real_time

TAG = payment_tag(PAYMENT_ID)
# `transferWithAuthorization` with the signature as bytes.
BYTES_FORM = "cf092995"
# 25 dollars.
UNITS = 25_000_000
WEI = 10**16
SHOP, PAYER, FEES = (address(place).lower() for place in (MERCHANT, BUYER, OPERATOR))
FEE = FeeTerms(share=Fraction(2, 100), base_usd=Fraction(0), address=FEES)


def signed(offer: Offer | None) -> tuple[Authorization, ...]:
    """The authorizations that an offer asks for."""
    assert offer is not None, "nothing is offered"
    asked = read_actions(offer.actions)
    assert not isinstance(asked, Sending), "a transaction is asked for"
    return asked


def sent(offer: Offer | None) -> Sending:
    """The transaction that an offer asks for."""
    assert offer is not None, "nothing is offered"
    asked = read_actions(offer.actions)
    assert isinstance(asked, Sending), "a signature is asked for"
    return asked


async def give_code(scene: Scene, to: str, code: str) -> None:
    await scene.chain.rpc("anvil_setCode", to, code)


async def delegate(scene: Scene, account: str, to: str) -> None:
    """Have a contract act for an account, as EIP-7702 has it."""
    await give_code(scene, account, "0xef0100" + to[2:].lower())


async def take_away(scene: Scene, token: str, selector: str) -> None:
    """Have a token no longer know one of its functions."""
    code = await scene.chain.rpc("eth_getCode", token, "latest")
    assert code.count("63" + selector) == 1
    await give_code(scene, token, code.replace("63" + selector, "63" + selector[:-1] + "6"))


async def set_coins(scene: Scene, of: str, wei: int) -> None:
    await scene.chain.rpc("anvil_setBalance", of, hex(wei))


async def price_of_gas(scene: Scene) -> int:
    return int(await scene.chain.rpc("eth_gasPrice"), 16)


# Signing.


async def test_a_key_signs_and_needs_no_coins(scene: Scene) -> None:
    await set_coins(scene, address(BUYER), 0)
    payment = await scene.payment()
    [main] = signed(await scene.offer(payment, scene.usdc_asset))

    assert (main.sender, main.recipient, main.value) == (PAYER, SHOP, UNITS)
    assert main.nonce == authorization_nonce(payment.id)
    assert main.valid_before_s == payment.expires_at_ms // 1000 + AUTHORIZATION_GRACE_S
    assert (main.domain.chain_id, main.domain.token) == (31337, scene.usdc.lower())


@pytest.mark.parametrize(
    ("other", "can_relay"),
    [({"sponsor": False}, True), ({"relayer": None}, True), ({}, False)],
    ids=["not sponsored", "no relayer", "the relayer is at its limit"],
)
async def test_where_nobody_carries_a_signature_the_token_is_sent(
    realm_db: Database, anvil: Anvil, other: dict[str, Any], can_relay: bool
) -> None:
    async with open_scene(realm_db, anvil, can_relay=can_relay, **other) as scene:
        found = sent(await scene.offer(await scene.payment(), scene.usdc_asset))

        assert found == Sending(scene.usdc.lower(), tagged_transfer(SHOP, UNITS, TAG), 0)


async def test_a_token_whose_domain_is_another_is_sent(realm_db: Database, anvil: Anvil) -> None:
    row = usdc_row(FIRST_CONTRACT, domain=Domain("USDC", "2"))
    async with open_scene(realm_db, anvil, rows=[row]) as scene:
        assert sent(await scene.offer(await scene.payment(), scene.usdc_asset)).to


async def test_a_smart_wallet_signs_where_the_token_takes_its_signatures(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await scene.chain.mint(scene.usdc, wallet, UNITS)
    [main] = signed(await scene.offer(await scene.payment(), scene.usdc_asset, buyer=wallet))

    assert main.sender == wallet.lower()


async def test_a_smart_wallet_sends_where_the_token_asks_keys_only(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await scene.chain.mint(scene.usdc, wallet, UNITS)
    await take_away(scene, scene.usdc, BYTES_FORM)
    payment = await scene.payment()

    assert sent(await scene.offer(payment, scene.usdc_asset, buyer=wallet)).to
    assert signed(await scene.offer(payment, scene.usdc_asset))


async def test_a_delegated_account_signs_where_its_code_answers_for_signatures(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await delegate(scene, address(BUYER), wallet)

    assert signed(await scene.offer(await scene.payment(), scene.usdc_asset))


async def test_a_delegated_account_sends_where_its_code_does_not(scene: Scene) -> None:
    # The token would ask the code, and refuse a signature that is right.
    await delegate(scene, address(BUYER), scene.dai)

    assert sent(await scene.offer(await scene.payment(), scene.usdc_asset)).to


# Sending tokens.


async def test_a_token_is_sent_with_the_payments_tag_by_who_has_coins_for_gas(scene: Scene) -> None:
    found = sent(await scene.offer(await scene.payment(), scene.dai_asset))

    assert found == Sending(scene.dai.lower(), tagged_transfer(SHOP, UNITS, TAG), 0)


@pytest.mark.parametrize(("missing", "offered"), [(0, True), (1, False)])
async def test_gas_must_be_there_to_the_last_unit(scene: Scene, missing: int, offered: bool) -> None:
    wei = TOKEN_GAS * await price_of_gas(scene) * 5 // 4
    await set_coins(scene, address(BUYER), wei - missing)
    offer = await scene.offer(await scene.payment(), scene.dai_asset)

    assert (offer is not None) is offered


async def test_a_smart_wallets_gas_may_be_paid_by_others(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await scene.chain.mint(scene.dai, wallet, UNITS)

    assert sent(await scene.offer(await scene.payment(), scene.dai_asset, buyer=wallet)).to


@pytest.mark.parametrize(("value", "offered"), [(MINTED // 10_000, True), (MINTED // 10_000 + 1, False)])
async def test_an_account_must_have_what_it_pays(scene: Scene, value: int, offered: bool) -> None:
    payment = await scene.payment(value=value)

    assert (await scene.offer(payment, scene.usdc_asset) is not None) is offered
    assert (await scene.offer(payment, scene.dai_asset) is not None) is offered


# Sending coins.


async def test_a_coin_is_sent_to_a_keys_account_with_the_tag_as_data(scene: Scene) -> None:
    assert sent(await scene.offer(await scene.payment(), ETH)) == Sending(SHOP, TAG, WEI)


async def test_a_coin_is_not_sent_to_code_which_might_refuse_the_tag(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])

    assert await scene.offer(await scene.payment(), ETH, merchant=wallet) is None


async def test_a_coin_is_not_sent_by_a_smart_wallet_which_would_hide_the_tag(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await set_coins(scene, wallet, 10**18)

    assert await scene.offer(await scene.payment(), ETH, buyer=wallet) is None


async def test_a_delegated_account_sends_coins_as_a_key_does(scene: Scene) -> None:
    await delegate(scene, address(BUYER), scene.dai)

    assert sent(await scene.offer(await scene.payment(), ETH)) == Sending(SHOP, TAG, WEI)


@pytest.mark.parametrize(("missing", "offered"), [(0, True), (1, False)])
async def test_coins_must_be_there_for_the_amount_and_its_gas(
    scene: Scene, missing: int, offered: bool
) -> None:
    wei = WEI + COIN_GAS * await price_of_gas(scene) * 5 // 4
    await set_coins(scene, address(BUYER), wei - missing)
    offer = await scene.offer(await scene.payment(), ETH)

    assert (offer is not None) is offered


# Fees.


async def test_a_fee_is_a_second_signature_and_the_rest_is_the_merchants(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_scene(realm_db, anvil, fee=FEE) as scene:
        payment = await scene.payment()
        main, fee = signed(await scene.offer(payment, scene.usdc_asset))

        assert (main.recipient, main.value) == (SHOP, 24_500_000)
        assert (fee.recipient, fee.value) == (FEES, 500_000)
        assert main.nonce == authorization_nonce(payment.id)
        assert fee.nonce == authorization_nonce(payment.id, "fee")
        assert (fee.sender, fee.valid_before_s, fee.domain) == (main.sender, main.valid_before_s, main.domain)


@pytest.mark.parametrize("mandatory", [False, True])
async def test_what_cannot_carry_a_fee_goes_without_it_or_not_at_all(
    realm_db: Database, anvil: Anvil, mandatory: bool
) -> None:
    fee = FeeTerms(share=FEE.share, base_usd=FEE.base_usd, address=FEES, mandatory=mandatory)
    async with open_scene(realm_db, anvil, fee=fee) as scene:
        payment = await scene.payment()
        others = [await scene.offer(payment, asset) for asset in (scene.dai_asset, ETH)]

        assert [offer is None for offer in others] == [mandatory, mandatory]
        assert len(signed(await scene.offer(payment, scene.usdc_asset))) == 2


@pytest.mark.parametrize("mandatory", [False, True])
async def test_two_signatures_need_a_contract_that_carries_both(
    realm_db: Database, anvil: Anvil, mandatory: bool
) -> None:
    fee = FeeTerms(share=FEE.share, base_usd=FEE.base_usd, address=FEES, mandatory=mandatory)
    async with open_scene(realm_db, anvil, fee=fee) as scene:
        await give_code(scene, MULTICALL3, "0x")
        offer = await scene.offer(await scene.payment(), scene.usdc_asset)

        assert (offer is None) is mandatory
        assert mandatory or [leg.value for leg in signed(offer)] == [UNITS]


async def test_the_operators_own_shop_pays_no_fee_to_itself(realm_db: Database, anvil: Anvil) -> None:
    fee = FeeTerms(share=FEE.share, base_usd=FEE.base_usd, address=FEES, mandatory=True)
    async with open_scene(realm_db, anvil, fee=fee) as scene:
        payment = await scene.payment()
        [main] = signed(await scene.offer(payment, scene.usdc_asset, merchant=FEES))

        assert main.value == UNITS
        assert sent(await scene.offer(payment, scene.dai_asset, merchant=FEES)).to
