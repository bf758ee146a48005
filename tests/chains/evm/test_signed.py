"""Signatures at the door: the buyer's own are taken in every form, and nobody else's, for nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from eth_account.messages import encode_typed_data

from payd.chains.base import Accepted, Misaligned, Refused, Unseen
from payd.chains.defaults import DepthPolicy
from payd.chains.evm.abi import MULTICALL3
from payd.chains.evm.authorization import PRIMARY_TYPE
from payd.chains.evm.binding import authorization_nonce
from payd.chains.evm.signed import NOT_DEPLOYED, TAKES_A_PART, TIME_LEFT_MIN_S, WRONG_SIGNATURE
from payd.chains.evm.track import Track
from payd.chains.fee_terms import FeeTerms
from payd.core.errors import ChainUnavailable, InvalidParams, InvalidSignature, QuoteExpired
from payd.core.option import Quote, Result
from payd.core.relay import RelayJob
from payd.store.db import Database
from tests.chains.evm.scene import CHAIN, PAYMENT_ID, Scene, open_scene, sign
from tests.live.anvil import Anvil
from tests.live.anvil import Refused as NodeRefused
from tests.live.chain import (
    BUYER,
    BUYER_2,
    DEPLOYER,
    MERCHANT,
    OPERATOR,
    RELAYER,
    STRANGER,
    account,
    address,
    calldata,
)
from tests.live.proxy import Request, open_proxy

pytestmark = pytest.mark.real_time

FEE = FeeTerms(Fraction(2, 100), Fraction(0), address(OPERATOR).lower())
# `transferWithAuthorization` with v, r and s.
VRS_FORM = "0xe3ee160e"
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def compact(signature: str) -> str:
    """The form of EIP-2098."""
    raw = bytes.fromhex(signature[2:])
    s = int.from_bytes(raw[32:64], "big") | (raw[64] - 27) << 255
    return "0x" + (raw[:32] + s.to_bytes(32, "big")).hex()


def parity(signature: str) -> str:
    """With v 0 or 1."""
    raw = bytes.fromhex(signature[2:])
    return "0x" + (raw[:64] + bytes([raw[64] - 27])).hex()


def high_s(signature: str) -> str:
    """The other valid signature of the same key, which tokens refuse."""
    raw = bytes.fromhex(signature[2:])
    s = ORDER - int.from_bytes(raw[32:64], "big")
    return "0x" + (raw[:32] + s.to_bytes(32, "big") + bytes([55 - raw[64]])).hex()


def changed(quote: Quote, message: dict[str, str]) -> str:
    """A signature over something else than the quote asks for."""
    typed = json.loads(quote.actions[0].params[1])  # type: ignore[union-attr]
    assert typed["primaryType"] == PRIMARY_TYPE
    typed["message"].update(message)
    return "0x" + bytes(account(BUYER).sign_message(encode_typed_data(full_message=typed)).signature).hex()


def refusal(verdict: object) -> Any:
    """Why results were refused."""
    assert isinstance(verdict, Refused), verdict
    return verdict.error


# What is taken.


@pytest.mark.parametrize("form", [str, compact, parity, str.upper])
async def test_a_buyers_signature_is_taken_in_every_form_that_wallets_have(
    scene: Scene, form: Callable[[str], str]
) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    signature = form(sign(quote.actions[0])).replace("0X", "0x")
    verdict = await scene.check(payment, quote, signature)

    assert isinstance(verdict, Accepted)


async def test_what_was_taken_is_owed_to_the_chain_and_pays_there(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    verdict = await scene.check(payment, quote, sign(quote.actions[0]))

    assert isinstance(verdict, Accepted)
    job = verdict.job
    assert isinstance(job, RelayJob)
    assert (job.chain, job.buyer) == (str(CHAIN), f"{CHAIN}:{address(BUYER).lower()}")
    assert job.target == scene.usdc
    assert job.valid_until_s == payment.expires_at_ms // 1000 + 45 * 60
    await scene.chain.done(account(RELAYER), job.target, job.data)
    assert await scene.chain.balance(scene.usdc, address(MERCHANT)) == 25_000_000


async def test_the_notes_say_what_will_show_the_transfer(realm_db: Database, anvil: Anvil) -> None:
    async with open_scene(realm_db, anvil, depth=DepthPolicy.of({"0": 3, "25": "safe"})) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment, scene.usdc_asset)
        verdict = await scene.check(payment, quote, sign(quote.actions[0]))

        assert isinstance(verdict, Accepted)
        processing = verdict.processing
        track = msgspec.msgpack.decode(processing.track, type=Track)
        assert track.asset == scene.usdc_asset.lower()
        assert track.recipient == f"{CHAIN}:{address(MERCHANT).lower()}"
        assert (track.value, track.depth) == ("25000000", "safe")
        assert (track.token, track.nonce) == (scene.usdc.lower(), authorization_nonce(payment.id))
        assert track.valid_until_s == payment.expires_at_ms // 1000 + 45 * 60
        assert track.told is None
        assert processing.fee is None
        assert processing.settlement_amount == processing.option_amount


async def test_a_check_asks_one_node_in_one_post(realm_db: Database, anvil: Anvil) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment, scene.usdc_asset)
        before = proxy.posts
        assert isinstance(await scene.check(payment, quote, sign(quote.actions[0])), Accepted)

        assert proxy.posts == before + 1


async def test_a_smart_wallet_signs_with_its_owners_key(scene: Scene) -> None:
    wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
    await scene.chain.mint(scene.usdc, wallet, 25_000_000)
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset, buyer=wallet)

    assert isinstance(await scene.check(payment, quote, sign(quote.actions[0], STRANGER)), Accepted)
    error = refusal(await scene.check(payment, quote, sign(quote.actions[0], BUYER)))
    assert isinstance(error, InvalidSignature)


# What is not.


@pytest.mark.parametrize("place", [BUYER_2, DEPLOYER])
async def test_somebody_elses_signature_is_refused(scene: Scene, place: int) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    error = refusal(await scene.check(payment, quote, sign(quote.actions[0], place)))

    assert isinstance(error, InvalidSignature)
    assert error.message == WRONG_SIGNATURE


@pytest.mark.parametrize(
    "message",
    [
        {"to": address(STRANGER)},
        {"value": "24999999"},
        {"value": "25000001"},
        {"validBefore": "99999999999"},
        {"nonce": "0x" + authorization_nonce("pay_l01jw0000000000000000000000000000000b").hex()},
    ],
)
async def test_a_signature_over_anything_else_is_refused(scene: Scene, message: dict[str, str]) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)

    assert isinstance(refusal(await scene.check(payment, quote, changed(quote, message))), InvalidSignature)


async def test_a_signature_for_another_payment_is_refused(scene: Scene) -> None:
    payment = await scene.payment()
    other = await scene.payment(id=PAYMENT_ID[:-1] + "b")
    quote = await scene.quote(payment, scene.usdc_asset)
    of_other = await scene.quote(other, scene.usdc_asset, option_id="opt_2")

    assert isinstance(refusal(await scene.check(payment, quote, sign(of_other.actions[0]))), InvalidSignature)


async def test_what_the_token_would_refuse_is_refused_in_its_words(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    signature = sign(quote.actions[0])

    async def error_after(call: str, *values: Any) -> Any:
        await scene.chain.done(account(DEPLOYER), scene.usdc, calldata(call, *values))
        return refusal(await scene.check(payment, quote, signature))

    denied = await error_after("setBlacklisted(address,bool)", address(BUYER), True)
    assert isinstance(denied, InvalidSignature)
    assert "blacklisted" in denied.message
    await scene.chain.done(
        account(DEPLOYER), scene.usdc, calldata("setBlacklisted(address,bool)", address(BUYER), False)
    )
    assert "paused" in (await error_after("setPaused(bool)", True)).message


async def test_a_signature_in_the_form_that_tokens_refuse_is_refused(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)

    assert isinstance(
        refusal(await scene.check(payment, quote, high_s(sign(quote.actions[0])))), InvalidSignature
    )


async def test_money_that_was_moved_after_the_offer_is_missed(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    move = calldata("transfer(address,uint256)", address(STRANGER), 9_980_000_000)
    await scene.chain.done(account(BUYER), scene.usdc, move)
    error = refusal(await scene.check(payment, quote, sign(quote.actions[0])))

    assert isinstance(error, InvalidSignature)
    assert "balance" in error.message


async def test_a_token_that_keeps_a_part_of_the_amount_is_not_paid_with(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    await scene.chain.done(account(DEPLOYER), scene.usdc, calldata("setSkim(uint256)", 100))
    error = refusal(await scene.check(payment, quote, sign(quote.actions[0])))

    assert isinstance(error, InvalidParams)
    assert error.message == TAKES_A_PART


async def test_a_wallet_that_is_not_deployed_is_told_so(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    error = refusal(await scene.check(payment, quote, "0x" + "ab" * 96 + "6492" * 16))

    assert isinstance(error, InvalidSignature)
    assert error.message == NOT_DEPLOYED


async def test_a_signature_that_is_about_to_end_is_too_late(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    results = [Result("walletRpc", [sign(quote.actions[0])])]
    ends_ms = payment.expires_at_ms + 45 * 60_000
    in_time = await scene.evm.check(payment, quote, results, ends_ms - TIME_LEFT_MIN_S * 1000)
    late = await scene.evm.check(payment, quote, results, ends_ms - TIME_LEFT_MIN_S * 1000 + 1000)

    assert isinstance(in_time, Accepted)
    assert isinstance(refusal(late), QuoteExpired)


async def test_a_signature_that_nobody_would_carry_any_more_asks_for_other_options(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    scene.evm._checks._signed._relayer = None

    assert isinstance(refusal(await scene.check(payment, quote, sign(quote.actions[0]))), QuoteExpired)


# What somebody brought there first.


async def check_that_used_is_left_to_the_chain(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment, scene.usdc_asset)
    verdict = await scene.check(payment, quote, sign(quote.actions[0]))
    assert isinstance(verdict, Accepted)
    assert isinstance(verdict.job, RelayJob)
    await scene.chain.done(account(STRANGER), verdict.job.target, verdict.job.data)

    assert isinstance(await scene.check(payment, quote, sign(quote.actions[0])), Unseen)
    assert isinstance(
        refusal(await scene.check(payment, quote, sign(quote.actions[0], STRANGER))), InvalidSignature
    )


async def test_an_authorization_that_was_used_before_is_left_to_the_chain(scene: Scene) -> None:
    await check_that_used_is_left_to_the_chain(scene)


async def test_so_it_is_where_the_token_does_not_revert(scene: Scene) -> None:
    await scene.chain.done(account(DEPLOYER), scene.usdc, calldata("setQuiet(bool)", True))
    await check_that_used_is_left_to_the_chain(scene)


# Two signatures.


async def test_a_payment_and_its_fee_are_carried_by_one_call(realm_db: Database, anvil: Anvil) -> None:
    async with open_scene(realm_db, anvil, fee=FEE) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment, scene.usdc_asset)
        verdict = await scene.check(payment, quote, *map(sign, quote.actions))

        assert isinstance(verdict, Accepted)
        assert isinstance(verdict.job, RelayJob)
        assert verdict.job.target.lower() == MULTICALL3
        processing = verdict.processing
        assert processing.option_amount.value == "25000000"
        assert processing.settlement_amount.value == "24500000"
        assert processing.fee is not None
        assert processing.fee.total_amount.value == "500000"
        assert processing.fee.percent.numerator == "1"
        await scene.chain.done(account(RELAYER), verdict.job.target, verdict.job.data)
        assert await scene.chain.balance(scene.usdc, address(MERCHANT)) == 24_500_000
        assert await scene.chain.balance(scene.usdc, address(OPERATOR)) == 500_000


async def test_swapped_signatures_are_misaligned_and_wrong_ones_are_refused(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_scene(realm_db, anvil, fee=FEE) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment, scene.usdc_asset)
        main, fee = map(sign, quote.actions)

        assert await scene.check(payment, quote, fee, main) == Misaligned()
        assert await scene.check(payment, quote, main) == Misaligned()
        assert isinstance(refusal(await scene.check(payment, quote, main, main)), InvalidSignature)
        other = sign(quote.actions[1], STRANGER)
        assert isinstance(refusal(await scene.check(payment, quote, main, other)), InvalidSignature)


async def test_a_smart_wallets_swapped_signatures_are_found_by_asking_its_token(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_scene(realm_db, anvil, fee=FEE) as scene:
        wallet = await scene.chain.deploy("Wallet1271", ["address"], [address(STRANGER)])
        await scene.chain.mint(scene.usdc, wallet, 25_000_000)
        payment = await scene.payment()
        quote = await scene.quote(payment, scene.usdc_asset, buyer=wallet)
        main, fee = (sign(action, STRANGER) for action in quote.actions)

        assert isinstance(await scene.check(payment, quote, main, fee), Accepted)
        assert await scene.check(payment, quote, fee, main) == Misaligned()
        assert isinstance(refusal(await scene.check(payment, quote, main, main)), InvalidSignature)


# Nodes.


async def test_nodes_that_do_not_answer_refuse_nobody(realm_db: Database, anvil: Anvil) -> None:
    async with open_proxy(anvil) as proxy, open_scene(realm_db, anvil, urls=[proxy.url]) as scene:
        payment = await scene.payment()
        quote = await scene.quote(payment, scene.usdc_asset)
        signature = sign(quote.actions[0])
        proxy.errors["eth_call"] = (-32000, "a node that is not itself")
        with pytest.raises(ChainUnavailable):
            await scene.check(payment, quote, signature)
        proxy.errors.clear()

        def broken(request: Request, result: Any) -> Any:
            data = request["params"][0]["data"] if request["method"] == "eth_call" else ""
            if data.startswith(VRS_FORM):
                raise NodeRefused(-32000, "a node that is not itself")
            return result

        proxy.rewrite = broken
        with pytest.raises(ChainUnavailable):
            await scene.check(payment, quote, signature)

        def without_state(request: Request, result: Any) -> Any:
            return "0x" if request["method"] == "eth_call" else result

        proxy.rewrite = without_state
        with pytest.raises(ChainUnavailable):
            await scene.check(payment, quote, signature)
        proxy.rewrite = None
        assert isinstance(await scene.check(payment, quote, signature), Accepted)
