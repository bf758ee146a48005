"""Told hashes: a node must show a transaction that pays us, with the payment's own tag."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from payd.chains.base import Accepted, Refused, Unseen
from payd.chains.evm import told as evm_told
from payd.chains.evm.abi import MULTICALL3, Call, aggregate3_call
from payd.chains.evm.binding import payment_tag, tagged_transfer, transfer_call
from payd.chains.evm.told import BY_CONTRACT, LOOKS, NOT_FOR_THIS, PAY_AGAIN, REVERTED
from payd.chains.evm.track import Told, Track
from payd.core.errors import ChainUnavailable, InvalidParams
from payd.core.option import Quote
from payd.core.payment import Payment
from payd.store.db import Database
from tests.chains.evm.scene import CHAIN, ETH, PAYMENT_ID, Scene, open_scene, two_nodes
from tests.live.anvil import Anvil
from tests.live.chain import (
    BUYER,
    BUYER_2,
    MERCHANT,
    MERCHANT_2,
    STRANGER,
    account,
    address,
    calldata,
)
from tests.live.proxy import open_proxy, with_status

pytestmark = pytest.mark.real_time

UNITS = 25_000_000
WEI = 10**16
TAG = payment_tag(PAYMENT_ID)
OTHER_TAG = payment_tag(PAYMENT_ID[:-1] + "b")
SHOP = address(MERCHANT)


def notes(verdict: object) -> Track:
    """Of a payment that was accepted."""
    assert isinstance(verdict, Accepted), verdict
    assert verdict.job is None
    return msgspec.msgpack.decode(verdict.processing.track, type=Track)


def words(verdict: object) -> str:
    """Why a transaction was refused; the payment stays open."""
    assert isinstance(verdict, Refused), verdict
    assert isinstance(verdict.error, InvalidParams)
    return verdict.error.message


async def offered(scene: Scene, asset: str, **other: Any) -> tuple[Payment, Quote]:
    payment = await scene.payment()
    return payment, await scene.quote(payment, asset, **other)


# What is taken.


@pytest.mark.parametrize("mined", [False, True])
@pytest.mark.parametrize("coin", [False, True])
async def test_a_transaction_that_pays_is_taken_pending_or_mined(
    scene: Scene, mined: bool, coin: bool
) -> None:
    payment, quote = await offered(scene, ETH if coin else scene.dai_asset)
    await scene.chain.rpc("evm_setAutomine", mined)
    nonce = int(await scene.chain.rpc("eth_getTransactionCount", address(BUYER), "latest"), 16)
    tx_hash = await scene.send(quote)
    verdict = await scene.check(payment, quote, tx_hash)
    track = notes(verdict)

    assert track.told == Told(tx_hash, address(BUYER).lower(), nonce)
    assert track.value == str(WEI if coin else UNITS)
    assert TAG in track.bindings
    assert (track.valid_until_s, track.token) == (None, None)
    assert isinstance(verdict, Accepted)
    assert verdict.processing.buyer == quote.account


async def test_who_paid_is_the_buyer_whoever_it_was_that_asked(scene: Scene) -> None:
    payment, quote = await offered(scene, scene.dai_asset)
    tx_hash = await scene.send(quote, BUYER_2)
    verdict = await scene.check(payment, quote, tx_hash)

    assert isinstance(verdict, Accepted)
    assert verdict.processing.buyer == f"{CHAIN}:{address(BUYER_2).lower()}"


async def test_a_smart_wallet_may_wrap_the_call_in_its_own(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await scene.chain.mint(scene.dai, wallet, UNITS)
    payment, quote = await offered(scene, scene.dai_asset, buyer=wallet)
    call = tagged_transfer(SHOP, UNITS, TAG)
    wrapped = calldata("execute(address,uint256,bytes)", scene.dai, 0, call)
    receipt = await scene.chain.done(account(STRANGER), wallet, wrapped)
    verdict = await scene.check(payment, quote, receipt["transactionHash"])

    # Its sender may come back with another transaction for the same order of the wallet.
    assert notes(verdict).told == Told(receipt["transactionHash"], address(STRANGER).lower(), None)
    assert isinstance(verdict, Accepted)
    assert verdict.processing.buyer == quote.account


async def test_data_that_a_wallet_puts_behind_the_tag_does_no_harm(scene: Scene) -> None:
    payment, quote = await offered(scene, scene.dai_asset)
    data = tagged_transfer(SHOP, UNITS, TAG) + b"\1" * 16
    receipt = await scene.chain.done(account(BUYER), scene.dai, data)

    assert notes(await scene.check(payment, quote, receipt["transactionHash"])).told


# What is not.


@pytest.mark.parametrize(
    ("to", "value", "tag"),
    [
        (SHOP, UNITS, OTHER_TAG),
        (SHOP, UNITS, b""),
        (SHOP, UNITS, TAG[::-1]),
        (SHOP, UNITS - 1, TAG),
        (SHOP, UNITS + 1, TAG),
        (address(MERCHANT_2), UNITS, TAG),
    ],
    ids=["another payment's tag", "no tag", "junk", "less", "more", "another merchant"],
)
async def test_a_transfer_that_is_not_what_was_asked_for_is_refused_pending_or_mined(
    scene: Scene, to: str, value: int, tag: bytes
) -> None:
    payment, quote = await offered(scene, scene.dai_asset)
    await scene.chain.rpc("evm_setAutomine", False)
    tx_hash = await scene.chain.send_as(account(BUYER), scene.dai, transfer_call(to, value) + tag)

    assert words(await scene.check(payment, quote, tx_hash)) == NOT_FOR_THIS
    await scene.chain.mine()
    assert words(await scene.check(payment, quote, tx_hash)) == NOT_FOR_THIS


async def test_the_same_in_another_token_is_refused(scene: Scene) -> None:
    payment, quote = await offered(scene, scene.dai_asset)
    receipt = await scene.chain.done(account(BUYER), scene.usdc, tagged_transfer(SHOP, UNITS, TAG))

    assert words(await scene.check(payment, quote, receipt["transactionHash"])) == NOT_FOR_THIS


async def test_somebody_elses_payment_to_the_same_merchant_is_refused(scene: Scene) -> None:
    payment, quote = await offered(scene, scene.dai_asset)
    other = await scene.payment(id=PAYMENT_ID[:-1] + "b")
    of_other = await scene.quote(other, scene.dai_asset, option_id="opt_2")
    tx_hash = await scene.send(of_other)

    assert words(await scene.check(payment, quote, tx_hash)) == NOT_FOR_THIS
    assert notes(await scene.check(other, of_other, tx_hash)).told


@pytest.mark.parametrize(
    ("value", "data"), [(WEI, OTHER_TAG), (WEI, b""), (WEI - 1, TAG), (WEI + 1, TAG), (WEI, b"\0" + TAG)]
)
async def test_coins_that_are_not_what_was_asked_for_are_refused(
    scene: Scene, value: int, data: bytes
) -> None:
    payment, quote = await offered(scene, ETH)
    await scene.chain.rpc("evm_setAutomine", False)
    tx_hash = await scene.chain.send_as(account(BUYER), SHOP, data, value)

    assert words(await scene.check(payment, quote, tx_hash)) == NOT_FOR_THIS
    await scene.chain.mine()
    assert words(await scene.check(payment, quote, tx_hash)) == NOT_FOR_THIS


async def bundling(scene: Scene, value: int) -> str:
    """Coins that the buyer's wallet sends in a bundle of its own, as EIP-7702 has it; which transaction."""
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(BUYER)])
    owner = "0x" + address(BUYER)[2:].lower().rjust(64, "0")
    await scene.chain.rpc("anvil_setCode", address(BUYER), "0xef0100" + wallet[2:].lower())
    await scene.chain.rpc("anvil_setStorageAt", address(BUYER), "0x0", owner)
    bundled = calldata("execute(address,uint256,bytes)", SHOP, value, TAG)
    tx_hash = await scene.chain.send_as(account(BUYER), address(BUYER), bundled)
    await scene.chain.receipt(tx_hash)
    return tx_hash


async def test_nobody_is_asked_to_send_again_what_a_wallet_sent_by_its_contract(scene: Scene) -> None:
    payment, quote = await offered(scene, ETH)
    before = int(await scene.chain.rpc("eth_getBalance", SHOP, "latest"), 16)
    tx_hash = await bundling(scene, WEI)

    assert int(await scene.chain.rpc("eth_getBalance", SHOP, "latest"), 16) == before + WEI
    assert words(await scene.check(payment, quote, tx_hash)) == BY_CONTRACT


async def test_what_was_reverted_in_its_contract_moved_nothing(scene: Scene) -> None:
    payment, quote = await offered(scene, ETH)
    refused = await scene.check(payment, quote, await bundling(scene, 10**30))

    assert words(refused) == REVERTED
    assert isinstance(refused, Refused)
    assert refused.error.details == {}


async def test_a_transaction_that_was_reverted_is_refused(scene: Scene) -> None:
    payment, quote = await offered(scene, scene.dai_asset)
    away = calldata("transfer(address,uint256)", address(STRANGER), 9_990_000_000)
    await scene.chain.done(account(BUYER), scene.dai, away)
    tx_hash = await scene.send(quote)
    receipt = await scene.chain.receipt(tx_hash)

    assert receipt["status"] == "0x0"
    refused = await scene.check(payment, quote, tx_hash)
    assert words(refused) == REVERTED
    assert isinstance(refused, Refused)
    assert refused.error.details == PAY_AGAIN


async def test_a_wrapped_call_that_was_mined_must_have_moved_the_money(scene: Scene) -> None:
    # The call failed inside of one that did not: whoever made it has no tokens.
    payment, quote = await offered(scene, scene.dai_asset)
    call = aggregate3_call([Call(scene.dai, tagged_transfer(SHOP, UNITS, TAG))])
    receipt = await scene.chain.done(account(STRANGER), MULTICALL3, call)

    assert words(await scene.check(payment, quote, receipt["transactionHash"])) == NOT_FOR_THIS


async def test_a_wrapped_call_that_was_reverted_may_come_again_and_nobody_else_pays(scene: Scene) -> None:
    payment, quote = await offered(scene, scene.dai_asset)
    call = aggregate3_call([Call(scene.dai, tagged_transfer(SHOP, UNITS, TAG), may_fail=False)])
    tx_hash = await scene.chain.send_as(account(STRANGER), MULTICALL3, call)
    receipt = await scene.chain.receipt(tx_hash)

    assert receipt["status"] == "0x0"
    refused = await scene.check(payment, quote, tx_hash)
    assert words(refused) == REVERTED
    assert isinstance(refused, Refused)
    assert refused.error.details == {}


async def test_a_token_that_kept_a_part_did_not_bring_the_amount(scene: Scene) -> None:
    payment, quote = await offered(scene, scene.dai_asset)
    await scene.chain.done(account(STRANGER), scene.dai, calldata("setSkim(uint256)", 100))
    tx_hash = await scene.send(quote)
    await scene.chain.receipt(tx_hash)

    assert words(await scene.check(payment, quote, tx_hash)) == NOT_FOR_THIS


# What no node shows.


async def test_a_hash_that_no_node_shows_is_waited_for_and_then_left_to_the_chain(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evm_told, "LOOK_EVERY_S", 0.01)
    payment, quote = await offered(scene, scene.dai_asset)
    unknown = "0x" + "12" * 32
    assert isinstance(await scene.check(payment, quote, unknown), Unseen)
    assert scene.rpc.calls["eth_getTransactionByHash"] == LOOKS

    # Not waited for again by the next quote, or by the wallet's next try.
    assert isinstance(await scene.check(payment, quote, unknown), Unseen)
    assert scene.rpc.calls["eth_getTransactionByHash"] == LOOKS + 1


async def test_a_transaction_that_comes_while_it_is_waited_for_is_taken(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evm_told, "LOOK_EVERY_S", 0.05)
    payment, quote = await offered(scene, scene.dai_asset)
    raw = await scene.chain.signed(account(BUYER), scene.dai, tagged_transfer(SHOP, UNITS, TAG))
    known: list[str] = []

    async def send_later() -> None:
        while scene.rpc.calls["eth_getTransactionByHash"] < 2:
            await trio.sleep(0.001)
        known.append(await scene.chain.rpc("eth_sendRawTransaction", "0x" + raw.hex()))

    tx_hash = str(await scene.chain.rpc("web3_sha3", "0x" + raw.hex()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_later)
        verdict = await scene.check(payment, quote, tx_hash)

    assert known == [tx_hash]
    assert notes(verdict).told


async def test_what_is_remembered_of_hashes_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evm_told, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(evm_told, "WAITED_MAX", 2)
    payment, quote = await offered(scene, scene.dai_asset)
    for number in range(4):
        await scene.check(payment, quote, f"0x{number:064x}")

    assert len(scene.evm._checks._sent._waited) == 2


# Nodes.


async def test_one_node_that_shows_it_is_enough(realm_db: Database, anvil: Anvil) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment, quote = await offered(scene, scene.dai_asset)
        tx_hash = await scene.send(quote)
        first.hidden.add(tx_hash)

        assert notes(await scene.check(payment, quote, tx_hash)).told


async def test_a_node_that_lies_about_a_reverted_one_does_not_refuse_it(
    realm_db: Database, anvil: Anvil
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, _):
        payment, quote = await offered(scene, scene.dai_asset)
        tx_hash = await scene.send(quote)
        await scene.chain.receipt(tx_hash)
        first.rewrite = with_status(0)

        assert notes(await scene.check(payment, quote, tx_hash)).told


async def test_one_node_of_two_that_calls_it_reverted_has_nobody_pay_again(
    realm_db: Database, anvil: Anvil
) -> None:
    async with two_nodes(realm_db, anvil) as (scene, first, second):
        payment, quote = await offered(scene, scene.dai_asset)
        tx_hash = await scene.send(quote)
        await scene.chain.receipt(tx_hash)
        first.rewrite = with_status(0)
        second.rewrite = lambda request, result: None if "Transaction" in request["method"] else result

        alone = await scene.check(payment, quote, tx_hash)
        second.rewrite = with_status(0)
        both = await scene.check(payment, quote, tx_hash)

        said = [one.error for one in (alone, both) if isinstance(one, Refused)]
        assert [error.message for error in said] == [REVERTED, REVERTED]
        assert [error.details for error in said] == [{}, PAY_AGAIN]


async def test_a_node_that_shows_another_transaction_under_the_hash_is_not_believed(
    realm_db: Database, anvil: Anvil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evm_told, "LOOK_EVERY_S", 0.001)
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment, quote = await offered(scene, scene.dai_asset)
        paying = await scene.send(quote)
        shown = await scene.chain.rpc("eth_getTransactionByHash", paying)
        proxy.rewrite = lambda request, result: (
            shown if request["method"] == "eth_getTransactionByHash" else None
        )

        assert isinstance(await scene.check(payment, quote, "0x" + "12" * 32), Unseen)


async def test_nodes_that_do_not_answer_are_no_word_against_a_transaction(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment, quote = await offered(scene, scene.dai_asset)
        proxy.status = 503
        with pytest.raises(ChainUnavailable):
            await scene.check(payment, quote, "0x" + "12" * 32)
