"""What pays a buyer back: exact, signed by the merchant alone, brought until it lands or cannot any more."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import trio
from solders.message import Message
from solders.pubkey import Pubkey

from payd.chains.base import Brought, Unsigned
from payd.chains.rpc import Rpc
from payd.chains.solana import fates
from payd.chains.solana.binding import memo_of, reference_key, refund_reference_of
from payd.chains.solana.build import split, with_signature
from payd.chains.solana.fates import Word
from payd.chains.solana.keys import ASSOCIATED_TOKEN, COMPUTE_BUDGET, MEMO, SYSTEM, TOKEN, TOKEN_2022
from payd.chains.solana.pay_back import BUYERS_OWN, FORGOTTEN, MADE, NO_ACCOUNT, NOT_ENOUGH, ON_ITS_WAY
from payd.core.caip import AccountId, parse_account
from payd.core.errors import (
    ChainUnavailable,
    InvalidParams,
    InvalidSignature,
    InvalidState,
    PaydError,
    PaymentNotSucceeded,
)
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.db import Database
from tests.chains.solana.scene import Scene, open_scene
from tests.live.proxy import Request
from tests.live.solana import (
    BUYER,
    BUYER_2,
    LAMPORTS,
    MERCHANT,
    POOR,
    PYUSD,
    PYUSD_MINT,
    SOL,
    STRANGER,
    USDC,
    USDC_MINT,
    account_id,
    close_holding,
    hand_over,
    keypair,
    pay_sol,
    pay_token,
    pubkey,
)

pytestmark = pytest.mark.real_time

# For so many blocks a blockhash serves, and so many more until that is final.
LIFE = 150 + 5


async def succeeded(scene: Scene, asset: str = USDC, **other: Any) -> Payment:
    """A payment that was paid, whose merchant has SOL for fees."""
    payment = await scene.paid(asset, **other)
    await scene.local.fund(pubkey(MERCHANT))
    await scene.local.confirm()
    return msgspec.structs.replace(payment, status=Status.SUCCEEDED)


async def written(scene: Scene, payment: Payment, place: int = MERCHANT) -> Unsigned:
    return await scene.solana.write_refund(payment, parse_account(account_id(place)), scene.now_ms())


async def refused(scene: Scene, payment: Payment, error: type[PaydError], account: AccountId) -> str:
    with pytest.raises(error) as caught:
        await scene.solana.write_refund(payment, account, scene.now_ms())
    return caught.value.message


def signed(unsigned: Unsigned, place: int = MERCHANT) -> str:
    """What the wallet gives back."""
    key = keypair(place)
    signature = bytes(key.sign_message(split(unsigned.raw)[1]))
    return base64.b64encode(with_signature(unsigned.raw, key.pubkey(), signature)).decode()


def programs(unsigned: Unsigned) -> list[Pubkey]:
    message = Message.from_bytes(split(unsigned.raw)[1])
    return [message.account_keys[one.program_id_index] for one in message.instructions]


async def brought(scene: Scene, payment: Payment, unsigned: Unsigned, place: int = MERCHANT) -> Brought:
    return await scene.solana.bring_refund(payment, unsigned, signed(unsigned, place), scene.now_ms())


async def has(scene: Scene, asset: str, place: int) -> int:
    """What somebody has of what was paid with."""
    if asset == SOL:
        return await scene.local.lamports(pubkey(place))
    mint, program = {USDC: (USDC_MINT, TOKEN), PYUSD: (PYUSD_MINT, TOKEN_2022)}[asset]
    return await scene.local.tokens(pubkey(place), mint, program)


def paid_with(payment: Payment) -> int:
    assert payment.processing is not None
    return int(payment.processing.option_amount.value)


@pytest.mark.parametrize("asset", [USDC, PYUSD, SOL])
async def test_the_buyer_has_back_what_was_paid_and_the_chain_shows_a_refund(
    scene: Scene, asset: str
) -> None:
    payment = await succeeded(scene, asset)
    before = [await has(scene, asset, place) for place in (BUYER, MERCHANT)]
    unsigned = await written(scene, payment)
    first = await brought(scene, payment, unsigned)
    assert first.state == "sent"
    await scene.local.confirm()
    assert await brought(scene, payment, unsigned) == Brought(first.tx_id, "landed")
    await scene.local.finalize()
    assert await brought(scene, payment, unsigned) == Brought(first.tx_id, "landed")
    buyer, merchant = [await has(scene, asset, place) for place in (BUYER, MERCHANT)]
    assert buyer - before[0] == paid_with(payment)
    landed = await scene.local.landed(first.tx_id)
    assert landed is not None
    fee = landed["meta"]["fee"] if asset == SOL else 0
    assert before[1] - merchant == paid_with(payment) + fee
    assert await scene.solana.refund_problem(payment, first.tx_id) is None


async def test_the_merchant_signs_alone_and_pays_the_network_with_a_price(scene: Scene) -> None:
    payment = await succeeded(scene)
    unsigned = await written(scene, payment)
    signatures, raw = split(unsigned.raw)
    message = Message.from_bytes(raw)
    assert signatures == [bytes(64)]
    assert message.signer_keys() == [pubkey(MERCHANT)]
    assert programs(unsigned) == [COMPUTE_BUDGET, COMPUTE_BUDGET, ASSOCIATED_TOKEN, MEMO, TOKEN]
    limit, price = (int.from_bytes(bytes(one.data)[1:], "little") for one in message.instructions[:2])
    assert limit > 0
    assert price > 0
    in_sol = await written(scene, msgspec.structs.replace(await succeeded(scene, SOL, id="pay_l2")))
    assert programs(in_sol) == [COMPUTE_BUDGET, COMPUTE_BUDGET, MEMO, SYSTEM]


async def test_a_price_above_the_operators_is_not_the_merchants_to_pay_either(scene: Scene) -> None:
    scene.node.prices = [10**9]
    unsigned = await written(scene, await succeeded(scene))
    price = Message.from_bytes(split(unsigned.raw)[1]).instructions[1].data
    assert int.from_bytes(bytes(price)[1:], "little") == scene.solana.terms.price_max


async def test_it_is_no_transfer_for_the_payment_whoever_watches_for_those(scene: Scene) -> None:
    payment = await succeeded(scene)
    unsigned = await written(scene, payment)
    message = Message.from_bytes(split(unsigned.raw)[1])
    assert reference_key(payment.id) not in message.account_keys
    assert Pubkey(refund_reference_of(payment.id)) in message.account_keys
    assert memo_of(refund_reference_of(payment.id)).encode() in bytes(message)
    assert payment.id.encode() not in bytes(message)


async def test_a_token_account_that_the_buyer_closed_is_created_again(scene: Scene) -> None:
    payment = await succeeded(scene)
    left = await scene.local.tokens(pubkey(BUYER), USDC_MINT)
    empty = [pay_token(pubkey(BUYER), pubkey(POOR), USDC_MINT, left), close_holding(pubkey(BUYER), USDC_MINT)]
    await scene.local.send(empty, keypair(BUYER))
    await scene.local.confirm()
    await brought(scene, payment, await written(scene, payment))
    await scene.local.confirm()
    assert await scene.local.tokens(pubkey(BUYER), USDC_MINT) == paid_with(payment)


async def test_a_token_account_that_the_buyer_gave_away_is_not_paid(scene: Scene) -> None:
    payment = await succeeded(scene)
    unsigned = await written(scene, payment)
    await scene.local.send([hand_over(pubkey(BUYER), USDC_MINT, pubkey(STRANGER))], keypair(BUYER))
    await scene.local.confirm()
    assert "belongs to somebody else" in await refused(
        scene, payment, InvalidState, parse_account(account_id(MERCHANT))
    )
    # Nor where it was given away after the wallet was asked.
    before = await scene.local.tokens(pubkey(MERCHANT), USDC_MINT)
    first = await brought(scene, payment, unsigned)
    await scene.local.finalize()
    assert await brought(scene, payment, unsigned) == Brought(first.tx_id, "failed")
    assert await scene.local.tokens(pubkey(MERCHANT), USDC_MINT) == before


async def test_a_refund_that_failed_is_in_no_other_ones_way(scene: Scene) -> None:
    payment = await succeeded(scene)
    unsigned = await written(scene, payment)
    everything = await scene.local.tokens(pubkey(MERCHANT), USDC_MINT)
    empty = pay_token(pubkey(MERCHANT), pubkey(BUYER_2), USDC_MINT, everything)
    await scene.local.send([empty], keypair(MERCHANT))
    await scene.local.confirm()
    assert (await brought(scene, payment, unsigned)).state == "sent"
    await scene.local.confirm()
    assert (await brought(scene, payment, unsigned)).state == "sent", (
        "it failed, and a fork may take that back"
    )
    await scene.local.finalize()
    assert (await brought(scene, payment, unsigned)).state == "failed"
    again = pay_token(pubkey(BUYER_2), pubkey(MERCHANT), USDC_MINT, everything)
    await scene.local.send([again], keypair(BUYER_2))
    await scene.local.confirm()
    second = await brought(scene, payment, await written(scene, payment))
    await scene.local.finalize()
    assert await scene.solana.refund_problem(payment, second.tx_id) is None


async def test_another_account_of_the_merchant_may_pay_back(scene: Scene) -> None:
    payment = await succeeded(scene)
    unsigned = await written(scene, payment, BUYER_2)
    first = await brought(scene, payment, unsigned, BUYER_2)
    await scene.local.confirm()
    assert await scene.solana.refund_problem(payment, first.tx_id) is None


async def test_an_account_that_cannot_pay_back_is_told_why(scene: Scene) -> None:
    payment = await succeeded(scene)
    assert await refused(scene, payment, InvalidParams, parse_account(account_id(BUYER))) == BUYERS_OWN
    other = parse_account("eip155:1:0x" + "11" * 20)
    assert await refused(scene, payment, InvalidParams, other) == NO_ACCOUNT
    for address in ("", "x", "1" * 20, "0" * 44):
        account = AccountId(scene.solana.terms.chain, address)
        assert await refused(scene, payment, InvalidParams, account) == NO_ACCOUNT
    await scene.local.fund(pubkey(STRANGER))
    await scene.local.confirm()
    stranger = parse_account(account_id(STRANGER))
    assert await refused(scene, payment, InvalidState, stranger) == NOT_ENOUGH
    await scene.local.give(pubkey(STRANGER), USDC_MINT, paid_with(payment) - 1)
    assert await refused(scene, payment, InvalidState, stranger) == NOT_ENOUGH
    await scene.local.fund(pubkey(MERCHANT), 0)
    await scene.local.confirm()
    words = await refused(scene, payment, InvalidState, parse_account(account_id(MERCHANT)))
    assert "does not hold enough SOL" in words


async def test_in_sol_the_same(scene: Scene) -> None:
    payment = await succeeded(scene, SOL)
    await scene.local.fund(pubkey(MERCHANT), LAMPORTS // 100)
    await scene.local.confirm()
    assert await refused(scene, payment, InvalidState, parse_account(account_id(MERCHANT))) == NOT_ENOUGH


async def test_what_was_not_paid_is_not_paid_back(scene: Scene) -> None:
    payment = await scene.paid()
    words = await refused(scene, payment, PaymentNotSucceeded, parse_account(account_id(MERCHANT)))
    assert "only a succeeded one can be refunded" in words


async def test_what_never_lands_is_told_once_it_cannot_any_more(scene: Scene) -> None:
    payment = await succeeded(scene)
    scene.node.mode = "blackhole"
    unsigned = await written(scene, payment)
    first = await brought(scene, payment, unsigned)
    await scene.local.slots(140)
    assert await brought(scene, payment, unsigned) == Brought(first.tx_id, "sent")
    await scene.local.slots(LIFE - 140)
    assert await brought(scene, payment, unsigned) == Brought(first.tx_id, "nowhere")
    scene.node.mode = "normal"
    # Nor does it land now that the node would take it.
    assert await brought(scene, payment, unsigned) == Brought(first.tx_id, "nowhere")
    await scene.local.finalize()
    assert await scene.local.landed(first.tx_id) is None
    assert (await written(scene, payment)).raw != unsigned.raw


async def test_what_was_lost_on_the_way_is_brought_again(scene: Scene) -> None:
    payment = await succeeded(scene)
    unsigned = await written(scene, payment)
    scene.node.mode = "blackhole"
    first = await brought(scene, payment, unsigned)
    scene.node.mode = "normal"
    assert await brought(scene, payment, unsigned) == first
    assert await brought(scene, payment, unsigned) == first, "few have voted for it"
    await scene.local.confirm()
    assert await brought(scene, payment, unsigned) == Brought(first.tx_id, "landed")


async def test_another_transaction_than_the_one_that_was_written_is_not_brought(scene: Scene) -> None:
    payment = await succeeded(scene)
    unsigned = await written(scene, payment)
    await scene.local.slots(1)
    other = await written(scene, payment)
    for text in (signed(other), "", "x", "A" * 9000, base64.b64encode(bytes(200)).decode()):
        with pytest.raises(InvalidParams):
            await scene.solana.bring_refund(payment, unsigned, text, scene.now_ms())
    with pytest.raises(InvalidSignature):
        await scene.solana.bring_refund(
            payment, unsigned, base64.b64encode(unsigned.raw).decode(), scene.now_ms()
        )
    await scene.local.confirm()
    assert await scene.local.tokens(pubkey(MERCHANT), USDC_MINT) == paid_with(payment)


async def test_where_no_node_says_what_became_of_it_nobody_is_told_anything(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=1) as scene:
        payment = await succeeded(scene)
        unsigned = await written(scene, payment)

        def rewrite(request: Request, result: Any) -> Any:
            return {} if request["method"] == "getSignatureStatuses" else result

        scene.proxies[0].rewrite = rewrite
        with pytest.raises(ChainUnavailable):
            await brought(scene, payment, unsigned)
        # It was brought all the same: whoever is in doubt brings it again, and it lands once.
        await scene.local.confirm()
        assert await scene.local.tokens(pubkey(MERCHANT), USDC_MINT) == 0


async def test_what_the_chain_shows_is_not_signed_again_whoever_lost_sight_of_it(scene: Scene) -> None:
    payment = await succeeded(scene)
    await scene.local.give(pubkey(MERCHANT), USDC_MINT, 10 * paid_with(payment))
    merchant = parse_account(account_id(MERCHANT))
    first = await brought(scene, payment, await written(scene, payment))
    await scene.local.confirm()
    assert await refused(scene, payment, InvalidState, merchant) == MADE.format(first.tx_id)
    other = msgspec.structs.replace(await succeeded(scene, id="pay_l2"), created_at_ms=payment.created_at_ms)
    assert (await written(scene, other)).raw


async def test_what_the_node_forgot_is_not_signed_again(scene: Scene) -> None:
    payment = await succeeded(scene)
    await scene.local.give(pubkey(MERCHANT), USDC_MINT, 10 * paid_with(payment))
    merchant = parse_account(account_id(MERCHANT))
    first = await brought(scene, payment, await written(scene, payment))
    await scene.local.slots(LIFE + 32)
    scene.node.forgotten.add(first.tx_id)
    scene.node.first_slot = scene.node.ledger.tip.slot - 100
    assert await refused(scene, payment, InvalidState, merchant) == FORGOTTEN.format(first.tx_id)
    scene.node.forgotten.clear()
    scene.node.first_slot = 0
    assert await refused(scene, payment, InvalidState, merchant) == MADE.format(first.tx_id)


async def test_what_names_a_refund_and_pays_nothing_or_too_little_back_is_none(scene: Scene) -> None:
    payment = await succeeded(scene)
    named = Pubkey(refund_reference_of(payment.id))
    little = pay_sol(pubkey(BUYER), pubkey(STRANGER), LAMPORTS // 100, named)
    failing = pay_token(pubkey(MERCHANT), pubkey(BUYER), USDC_MINT, 10**12, named)
    await scene.local.send([little], keypair(BUYER))
    dust = pay_token(pubkey(BUYER_2), pubkey(BUYER), USDC_MINT, paid_with(payment) - 1, named)
    await scene.local.send([dust], keypair(BUYER_2))
    await scene.local.send_raw(await scene.local.signed([failing], keypair(MERCHANT)))
    await scene.local.confirm()
    await brought(scene, payment, await written(scene, payment))
    await scene.local.confirm()
    assert await scene.local.tokens(pubkey(MERCHANT), USDC_MINT) == 0


@pytest.mark.parametrize("restarted", [False, True])
async def test_of_two_that_were_signed_at_once_only_one_is_brought_while_it_may_land(
    scene: Scene, restarted: bool
) -> None:
    payment = await succeeded(scene)
    await scene.local.give(pubkey(MERCHANT), USDC_MINT, 10 * paid_with(payment))
    one, other = await written(scene, payment), await written(scene, payment, BUYER_2)
    scene.node.mode = "blackhole"
    first = await brought(scene, payment, one)
    if restarted:
        scene.solana = scene.restarted()
    with pytest.raises(InvalidState, match=first.tx_id):
        await brought(scene, payment, other, BUYER_2)
    merchant = parse_account(account_id(MERCHANT))
    assert await refused(scene, payment, InvalidState, merchant) == ON_ITS_WAY.format(first.tx_id)
    await scene.local.slots(LIFE)
    scene.node.mode = "normal"
    anew = await written(scene, payment)
    await brought(scene, payment, anew)
    assert await brought(scene, payment, one) == Brought(first.tx_id, "nowhere")
    assert (await brought(scene, payment, other, BUYER_2)).state == "nowhere"
    await scene.local.confirm()
    assert await scene.local.tokens(pubkey(MERCHANT), USDC_MINT) == 9 * paid_with(payment)


async def test_of_two_that_come_at_the_same_moment_only_one_is_brought(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await succeeded(scene)
    await scene.local.give(pubkey(BUYER_2), USDC_MINT, paid_with(payment))
    both = [(await written(scene, payment, place), place) for place in (MERCHANT, BUYER_2)]
    scene.node.mode = "blackhole"
    states: list[str] = []
    asked: list[str] = []
    all_asked = trio.Event()

    async def ask_enough(rpc: Rpc, tx_ids: Sequence[str]) -> Sequence[Word]:
        words = await fates.ask_enough(rpc, tx_ids)
        asked.extend(tx_ids)
        if len(asked) == len(both):
            all_asked.set()
        await all_asked.wait()
        return words

    monkeypatch.setattr("payd.chains.solana.pay_back.ask_enough", ask_enough)

    async def bring(unsigned: Unsigned, place: int) -> None:
        try:
            states.append((await brought(scene, payment, unsigned, place)).state)
        except InvalidState:
            states.append("refused")

    sends = scene.rpc.calls["sendTransaction"]
    async with trio.open_nursery() as nursery:
        for one in both:
            nursery.start_soon(bring, *one)

    assert sorted(states) == ["refused", "sent"]
    assert scene.rpc.calls["sendTransaction"] == sends + 1
