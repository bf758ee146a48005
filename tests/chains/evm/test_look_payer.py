"""Who paid: who may have it back is the word of more than one node, and not of who told of it first."""

from __future__ import annotations

from typing import Any

import pytest

from payd.chains.base import Accepted
from payd.chains.evm.binding import payment_tag, tagged_transfer
from payd.core.payment import Payment
from payd.core.refund import repayment_of
from payd.core.relay import RelayJob
from payd.core.status import Status
from payd.store.db import Database
from tests.chains.evm.scene import CHAIN, ETH, Scene, sign, two_nodes
from tests.live.anvil import Anvil
from tests.live.chain import BUYER, BUYER_2, MERCHANT, STRANGER, account, address, calldata
from tests.live.proxy import Request

pytestmark = pytest.mark.real_time

UNITS = 25_000_000
SHOP = address(MERCHANT)


def lie(request: Request, result: Any) -> Any:
    """Rewrites receipts, and what pays in the coin: what the buyer paid a stranger did."""
    if request["method"] == "eth_getTransactionByHash" and result and int(result["value"], 16):
        return {**result, "from": address(STRANGER).lower()}
    if request["method"] != "eth_getTransactionReceipt" or result is None:
        return result
    word = "0x" + address(STRANGER)[2:].lower().rjust(64, "0")
    logs = [{**log, "topics": [log["topics"][0], word, *log["topics"][2:]]} for log in result["logs"]]
    return {**result, "logs": logs}


def lie_of_sender(request: Request, result: Any) -> Any:
    """Rewrites transactions: a stranger sent them."""
    if request["method"] == "eth_getTransactionByHash" and result:
        return {**result, "from": address(STRANGER).lower()}
    return result


async def sent_by_wallet(scene: Scene, coin: bool) -> Payment:
    """A payment whose transfer the buyer sent without telling anybody, deep enough."""
    payment = await scene.payment()
    quote = await scene.quote(payment, ETH if coin else scene.dai_asset)
    await scene.chain.receipt(await scene.send(quote))
    await scene.watch(1)
    return payment


@pytest.mark.parametrize("coin", [False, True])
@pytest.mark.parametrize("liar", [0, 1])
async def test_who_paid_is_whom_two_nodes_show(
    realm_db: Database, anvil: Anvil, liar: int, coin: bool
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, second):
        (first, second)[liar].rewrite = lie
        payment = await scene.follow(await sent_by_wallet(scene, coin))
        assert payment.status is Status.REQUIRES_ACTION
        assert scene.evm.evidence.disagreements == 1
        (first, second)[liar].rewrite = None
        payment = await scene.follow(payment)

        assert payment.status is Status.SUCCEEDED
        assert repayment_of(payment).to == f"{CHAIN}:{address(BUYER).lower()}"


async def test_what_one_node_told_alone_of_who_paid_is_not_what_succeeds(
    realm_db: Database, anvil: Anvil
) -> None:
    """The other one was behind when it was committed."""
    async with two_nodes(realm_db, anvil) as (scene, first, second):
        payment = await sent_by_wallet(scene, False)
        first.rewrite, second.lag = lie, 5
        found = await scene.look(payment)
        assert found is not None
        assert found.trigger is not None
        payment = await scene.move(payment, found.trigger)
        assert payment.processing is not None
        assert payment.processing.buyer == f"{CHAIN}:{address(STRANGER).lower()}"
        second.lag = 0
        payment = await scene.follow(payment)
        assert payment.status is Status.PROCESSING
        first.rewrite = None
        payment = await scene.follow(payment)

        assert payment.status is Status.SUCCEEDED
        assert repayment_of(payment).to == f"{CHAIN}:{address(BUYER).lower()}"


async def test_nor_where_nodes_contradict_each_other_on_who_sent_what_a_wallet_told_of(
    realm_db: Database, anvil: Anvil
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment = await scene.payment()
        quote = await scene.quote(payment, ETH)
        payment = await scene.commit(payment, quote, await scene.send(quote))
        await scene.watch(3)
        first.rewrite = lie
        payment = await scene.follow(payment)
        assert payment.status is Status.PROCESSING
        first.rewrite = None
        payment = await scene.follow(payment)

        assert payment.status is Status.SUCCEEDED


async def test_nor_where_a_stranger_brought_what_was_signed_and_nobody_told_us(
    realm_db: Database, anvil: Anvil
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, second):
        payment = await scene.payment()
        quote = await scene.quote(payment, scene.usdc_asset)
        signed = await scene.check(payment, quote, sign(quote.actions[0]))
        assert isinstance(signed, Accepted)
        assert isinstance(signed.job, RelayJob)
        await scene.chain.done(account(BUYER_2), signed.job.target, signed.job.data)
        await scene.watch(1)
        first.rewrite, second.lag = lie, 5
        found = await scene.look(payment)
        assert found is not None
        assert found.trigger is not None
        payment = await scene.move(payment, found.trigger)
        second.lag = 0
        payment = await scene.follow(payment)

        assert payment.status is Status.PROCESSING


@pytest.mark.parametrize("coin", [False, True])
async def test_what_one_node_told_of_who_sent_a_wallets_transaction_is_not_who_gets_it_back(
    realm_db: Database, anvil: Anvil, coin: bool
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment = await scene.payment()
        quote = await scene.quote(payment, ETH if coin else scene.dai_asset)
        tx_hash = await scene.send(quote)
        first.rewrite = lie_of_sender
        payment = await scene.commit(payment, quote, tx_hash)
        assert payment.processing is not None
        assert payment.processing.buyer == f"{CHAIN}:{address(STRANGER).lower()}"
        first.rewrite = None
        await scene.watch(5)
        payment = await scene.follow(payment)

        assert payment.status is Status.SUCCEEDED
        assert repayment_of(payment).to == f"{CHAIN}:{address(BUYER).lower()}"


def executed(scene: Scene, payment: Payment) -> bytes:
    """The data with which a contract is told to pay for a payment."""
    call = tagged_transfer(SHOP, UNITS, payment_tag(payment.id))
    return calldata("execute(address,uint256,bytes)", scene.dai, 0, call)


async def test_who_names_a_smart_wallets_transaction_first_does_not_get_it_back(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(BUYER)])
    for holder in (wallet, address(STRANGER)):
        await scene.chain.mint(scene.dai, holder, UNITS)
    payment = await scene.payment()
    await scene.quote(payment, scene.dai_asset, buyer=wallet)
    others = await scene.quote(payment, scene.dai_asset, buyer=address(STRANGER), option_id="opt_2")
    receipt = await scene.chain.done(account(BUYER), wallet, executed(scene, payment))
    payment = await scene.commit(payment, others, receipt["transactionHash"])
    await scene.watch(5)
    payment = await scene.follow(payment)

    assert payment.status is Status.SUCCEEDED
    assert repayment_of(payment).to == f"{CHAIN}:{wallet.lower()}"


async def test_who_sent_what_a_contract_paid_is_the_buyer_as_its_wallet_told(scene: Scene) -> None:
    router = await scene.chain.deploy("Wallet1271", ["address"], [address(BUYER)])
    await scene.chain.mint(scene.dai, router, UNITS)
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.dai_asset)
    receipt = await scene.chain.done(account(BUYER), router, executed(scene, payment))
    payment = await scene.commit(payment, quote, receipt["transactionHash"])
    await scene.watch(5)
    payment = await scene.follow(payment)

    assert payment.status is Status.SUCCEEDED
    assert repayment_of(payment).to == f"{CHAIN}:{address(BUYER).lower()}"


async def test_who_signs_and_lets_another_pay_does_not_get_it_back(scene: Scene) -> None:
    await scene.chain.mint(scene.usdc, address(STRANGER), UNITS)
    payment = await scene.payment()
    others = await scene.quote(payment, scene.usdc_asset, buyer=address(STRANGER))
    payment = await scene.commit(payment, others, sign(others.actions[0], STRANGER))
    call = tagged_transfer(SHOP, UNITS, payment_tag(payment.id))
    await scene.chain.done(account(BUYER), scene.usdc, call)
    await scene.watch(5)
    payment = await scene.follow(payment)

    assert payment.status is Status.SUCCEEDED
    assert repayment_of(payment).to == f"{CHAIN}:{address(BUYER).lower()}"
