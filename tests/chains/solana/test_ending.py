"""What became of a commitment that no transfer shows: no failure while anything of ours can still land."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from solders.message import Message

from payd.chains.base import Found
from payd.chains.solana.binding import memo_of, reference_key, reference_of
from payd.chains.solana.build import split
from payd.chains.solana.ending import LISTED_MAX, End
from payd.chains.solana.failures import NO_FUNDS
from payd.chains.solana.track import read_track
from payd.core.errors import ChainUnavailable
from payd.core.failure import BROADCAST_FAILED, PAID_NOTHING
from payd.core.payment import FundsCommitted, Payment, PaymentFailed, WindowClosed
from payd.store.chain_cursors import find_cursor
from payd.store.db import Database
from payd.store.submissions import end_submission, find_submission
from tests.chains.solana.scene import Scene, open_scene, sign, signed_by, transaction_of
from tests.live.proxy import Request
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    MERCHANT,
    STRANGER,
    USDC,
    USDC_MINT,
    hand_over,
    keypair,
    memo,
    pay_sol,
    pay_token,
    pubkey,
)
from tests.live.solana_proxy import SolanaProxy

pytestmark = pytest.mark.real_time

# So many blocks, and a blockhash does not serve any more; so many later, that is final.
LIFE = 150
FINAL = 4


def end(found: Found | None) -> End | None:
    if found is None:
        return None
    assert isinstance(found.trigger, (PaymentFailed, WindowClosed)), found
    assert found.follow is None
    return found.trigger


@asynccontextmanager
async def two_nodes(db: Database) -> AsyncIterator[tuple[Scene, SolanaProxy, SolanaProxy]]:
    async with open_scene(db, proxies=2) as scene:
        first, second = scene.proxies
        yield scene, first, second


async def kill(scene: Scene, payment: Payment, reason: str = "the disk was full") -> None:
    """Note that what was owed to the chain cannot be brought there any more."""
    submission = scene.db.point(find_submission, payment.id)
    assert submission is not None
    assert await scene.db.write(end_submission, submission.seq, "dead", reason)


# What never left.


async def test_what_never_left_us_has_failed_and_says_why(scene: Scene) -> None:
    payment = await scene.signed()
    assert await scene.look(payment) is None
    await kill(scene, payment)
    words = "It could not be brought to the blockchain: the disk was full"

    assert end(await scene.look(payment)) == PaymentFailed(words, BROADCAST_FAILED)


async def test_what_never_left_us_has_not_failed_while_something_else_can_land_that_was_built_for_it(
    scene: Scene,
) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.slots(80)
    # Another account fetched its own, and may still send it.
    await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
    payment = await scene.commit(payment, quote, sign(quote))
    await kill(scene, payment)
    await scene.watch(LIFE + FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)

    ended = end(await scene.look(payment))
    assert isinstance(ended, PaymentFailed)
    assert "the disk was full" in ended.reason


async def test_what_left_us_may_land_whatever_became_of_it_here(scene: Scene) -> None:
    payment = await scene.signed()
    scene.node.mode = "blackhole"
    await scene.bring()
    await kill(scene, payment)

    assert await scene.look(payment) is None


# Nowhere.


async def test_a_window_closes_once_the_blockhash_has_expired_in_a_final_block_and_not_a_block_before(
    scene: Scene,
) -> None:
    payment = await scene.signed()
    track = read_track(payment)
    assert track.valid_until_height is not None
    await scene.watch(LIFE + FINAL - 1)
    assert scene.node.ledger.at("finalized").height == track.valid_until_height
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_what_a_node_shows_at_all_is_not_gone_whatever_else_it_says(realm_db: Database) -> None:
    async with two_nodes(realm_db) as (scene, _, second):
        payment = await scene.signed()
        await scene.local.slots(LIFE + FINAL)
        ghost = landed_json(scene, payment)

        def contradicts(request: Request, result: Any) -> Any:
            if request["method"] == "getTransaction" and request["params"][1]["commitment"] == "confirmed":
                return ghost
            return result

        second.rewrite = contradicts
        assert await scene.look(payment) is None
        second.rewrite = None

        assert isinstance(end(await scene.look(payment)), WindowClosed)


def landed_json(scene: Scene, payment: Payment) -> Any:
    """What a node would show of the transaction of a payment, had it landed."""
    submission = scene.db.point(find_submission, payment.id)
    assert submission is not None
    none = [0] * len(Message.from_bytes(split(submission.raw)[1]).account_keys)
    return {
        "slot": scene.node.ledger.tip.slot,
        "transaction": [base64.b64encode(submission.raw).decode(), "base64"],
        "meta": {"err": None, "fee": 5000, "preBalances": none, "postBalances": none},
    }


async def test_heights_count_and_not_slots(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.local.rpc("payd_skip", 400)
    await scene.watch(FINAL)

    assert await scene.look(payment) is None


async def test_what_landed_just_in_time_is_no_end(scene: Scene) -> None:
    """Though no transfer of it was found yet."""
    payment = await scene.signed()
    await scene.local.slots(LIFE - 1)
    await scene.bring()
    for _ in range(3):
        await scene.local.slots(FINAL)
        assert await scene.look(payment) is None


DOUBTS: dict[str, Callable[[SolanaProxy, Payment], object]] = {
    "one is a block behind": lambda node, payment: setattr(node.node, "lag", 1),
    "one has not all slots": lambda node, payment: setattr(
        node.node, "first_slot", node.node.ledger.tip.slot - 10
    ),
    "one does not say since when it has them": lambda node, payment: node.errors.update(
        getFirstAvailableBlock=(-32601, "Method not found")
    ),
    "one keeps no history": lambda node, payment: node.errors.update(
        getTransaction=(-32011, "Transaction history is not available from this node")
    ),
    "one does not list": lambda node, payment: node.errors.update(
        getSignaturesForAddress=(-32601, "Method not found")
    ),
    "one has a status": lambda node, payment: setattr(node, "rewrite", with_status),
    "one lists it": lambda node, payment: setattr(node, "rewrite", listing_it(read_track(payment).tx_id)),
    "one knows no status yet": lambda node, payment: setattr(node, "rewrite", statuses_of_before),
}


def with_status(request: Request, result: Any) -> Any:
    if request["method"] != "getSignatureStatuses":
        return result
    status = {"slot": 5, "confirmations": 0, "err": None, "confirmationStatus": "processed"}
    return {**result, "value": [status]}


def listing_it(tx_id: str) -> Callable[[Request, Any], Any]:
    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] != "getSignaturesForAddress":
            return result
        return [{"signature": tx_id, "slot": 5, "err": None, "confirmationStatus": "confirmed"}]

    return rewrite


def statuses_of_before(request: Request, result: Any) -> Any:
    """The node behind the same address that answers this is another one, and lags."""
    if request["method"] != "getSignatureStatuses":
        return result
    return {**result, "context": {"slot": result["context"]["slot"] - FINAL - 1}}


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_both_nodes_must_show_that_it_cannot_come_any_more(realm_db: Database, doubt: str) -> None:
    async with two_nodes(realm_db) as (scene, _, second):
        payment = await scene.signed()
        await scene.watch(LIFE + FINAL)
        DOUBTS[doubt](second, payment)
        assert await scene.look(payment) is None
        second.rewrite, second.node.lag, second.node.first_slot = None, 0, 0
        second.errors.clear()

        assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_a_node_that_has_the_slots_since_the_commitment_need_not_have_all(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.watch(LIFE + FINAL)
    assert payment.processing is not None
    scene.node.first_slot = scene.node.ledger.at("finalized").slot - 1000 - 10
    later_ms = payment.processing.processing_at_ms + 10 * 400 // 2
    assert isinstance(end(await scene.solana.look(payment, later_ms)), WindowClosed)

    assert await scene.solana.look(payment, later_ms + 400) is None


async def test_nodes_that_do_not_answer_close_no_window(realm_db: Database) -> None:
    async with two_nodes(realm_db) as (scene, first, _):
        payment = await scene.signed()
        await scene.watch(LIFE + FINAL)
        first.status = 503
        with pytest.raises(ChainUnavailable):
            await scene.look(payment)


async def test_nothing_closes_while_something_else_that_was_built_for_it_can_land(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.slots(80)
    # Another account fetched its own, and may still send it.
    await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
    payment = await scene.commit(payment, quote, sign(quote))
    await scene.watch(LIFE + FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_another_transaction_that_pays_keeps_it_open(scene: Scene) -> None:
    """Its transfer was not found yet, wherever in the merchant's wallet it arrived."""
    payment = await scene.signed()
    named = [
        memo(memo_of(reference_of(payment.id))),
        pay_token(pubkey(BUYER_2), pubkey(MERCHANT), USDC_MINT, 25_000_000, reference_key(payment.id)),
    ]
    await scene.local.send(named, keypair(BUYER_2))
    await scene.local.slots(LIFE + FINAL)

    assert await scene.look(payment) is None


async def test_transactions_that_only_name_a_payment_do_not_keep_it_open(scene: Scene) -> None:
    payment = await scene.signed()
    for lamports in (1, 2):
        named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), lamports, reference_key(payment.id))]
        await scene.local.send(named, keypair(BUYER_2))
    await scene.local.slots(LIFE + FINAL)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_of_transactions_that_name_it_a_few_are_read_and_what_more_do_was_read_with_the_window(
    scene: Scene,
) -> None:
    payment = await scene.signed()
    for lamports in range(LISTED_MAX + 1):
        named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), lamports + 1, reference_key(payment.id))]
        await scene.local.send(named, keypair(BUYER_2))
    await scene.watch(LIFE + FINAL)
    assert await scene.look(payment) is None
    read = scene.db.point(find_cursor, CHAIN, "final")
    assert read is not None
    just = msgspec.structs.replace(payment, expires_at_ms=read.time_s * 1000)
    assert await scene.look(just) is None, "another block may be of the same second"
    newest = next(reversed(scene.node.ledger.landed))
    scene.node.forgotten.add(newest)
    assert isinstance(end(await scene.look(payment)), WindowClosed)
    scene.node.forgotten.clear()
    await scene.local.rpc("payd_time", 901)
    await scene.watch(FINAL)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_nobody_keeps_it_open_by_naming_it_again_and_again(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.watch(LIFE)
    await scene.local.rpc("payd_time", 901)
    for lamports in range(LISTED_MAX + 1):
        named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), lamports + 1, reference_key(payment.id))]
        await scene.local.send(named, keypair(BUYER_2))
        await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_nobody_keeps_it_open_with_a_part_of_its_amount(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.local.give(pubkey(BUYER_2), USDC_MINT, 1)
    named = [
        memo(memo_of(reference_of(payment.id))),
        pay_token(pubkey(BUYER_2), pubkey(MERCHANT), USDC_MINT, 1, reference_key(payment.id)),
    ]
    await scene.local.send(named, keypair(BUYER_2))
    await scene.watch(LIFE + FINAL)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_what_names_it_and_is_not_final_keeps_it_open(scene: Scene) -> None:
    payment = await scene.signed()
    await scene.local.slots(LIFE + FINAL)
    named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), 1, reference_key(payment.id))]
    await scene.local.send(named, keypair(BUYER_2))
    await scene.local.slots(FINAL - 1)
    assert await scene.look(payment) is None
    await scene.local.slots(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_what_a_wallet_sent_itself_may_be_sent_anew_until_the_window_closes(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.local.send_raw(signed_by(transaction_of(quote), keypair(BUYER)))
    await scene.watch()
    found = await scene.look(payment)
    assert found is not None
    assert isinstance(found.trigger, FundsCommitted)
    payment, row = await scene.move(payment, found.trigger), scene.row(payment)
    await scene.local.rpc("payd_fork", 2)
    await scene.take_back(row)
    await scene.watch(LIFE + 2 * FINAL)
    assert await scene.look(payment) is None
    await scene.local.rpc("payd_time", 901)
    await scene.watch(FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), WindowClosed)


# Failed.


async def failed(scene: Scene) -> Payment:
    """A payment whose buyer spent the money before it landed."""
    payment = await scene.signed()
    await scene.local.give(pubkey(BUYER), USDC_MINT, 1)
    await scene.bring()
    return payment


async def test_what_failed_on_the_chain_has_failed_once_that_is_final(scene: Scene) -> None:
    payment = await failed(scene)
    await scene.watch(FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)
    found = end(await scene.look(payment))

    assert isinstance(found, PaymentFailed)
    assert found.code == BROADCAST_FAILED
    assert NO_FUNDS in found.reason


async def test_both_nodes_must_show_the_failure(realm_db: Database) -> None:
    async with two_nodes(realm_db) as (scene, _, second):
        payment = await failed(scene)
        await scene.watch(FINAL)
        second.node.lag = 1
        assert await scene.look(payment) is None
        second.node.lag = 0
        second.rewrite = frozen
        assert await scene.look(payment) is None
        second.rewrite = None

        assert isinstance(end(await scene.look(payment)), PaymentFailed)


def frozen(request: Request, result: Any) -> Any:
    """A node that shows another failure than the others."""
    if request["method"] != "getTransaction" or result is None:
        return result
    return {**result, "meta": {**result["meta"], "err": {"InstructionError": [3, {"Custom": 17}]}}}


async def test_a_failure_waits_for_what_else_was_built_for_it(scene: Scene) -> None:
    payment = await scene.payment()
    quote = await scene.quote(payment)
    await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
    payment = await scene.commit(payment, quote, sign(quote))
    await scene.local.give(pubkey(BUYER), USDC_MINT, 1)
    await scene.bring()
    await scene.watch(LIFE + FINAL - 1)
    assert await scene.look(payment) is None
    await scene.watch(1)

    assert isinstance(end(await scene.look(payment)), PaymentFailed)


async def test_what_landed_and_paid_somebody_else_has_paid_nothing(scene: Scene) -> None:
    """The merchant's token account got another owner between the check and the chain."""
    payment = await scene.signed()
    given = [hand_over(pubkey(MERCHANT), USDC_MINT, pubkey(STRANGER))]
    await scene.local.send(given, keypair(MERCHANT))
    await scene.bring()
    await scene.watch(FINAL)

    assert end(await scene.look(payment)) == PaymentFailed(PAID_NOTHING, BROADCAST_FAILED)


async def test_another_amount_that_reached_the_merchant_is_no_failure(scene: Scene) -> None:
    """It is recorded as what it is, and somebody looks at it."""
    payment = await scene.signed()
    await scene.bring()
    await scene.local.slots(FINAL)
    assert payment.processing is not None
    other = msgspec.structs.replace(read_track(payment), value="24999999")
    processing = msgspec.structs.replace(payment.processing, track=msgspec.msgpack.encode(other))

    assert await scene.look(msgspec.structs.replace(payment, processing=processing)) is None


@pytest.mark.parametrize("asset", [USDC])
async def test_an_answer_that_cannot_be_read_ends_nothing(realm_db: Database, asset: str) -> None:
    async with two_nodes(realm_db) as (scene, first, _):
        payment = await scene.signed(asset)
        await scene.watch(LIFE + FINAL)
        for method in ("getBlockHeight", "getSlot", "getTransaction", "getSignaturesForAddress"):
            first.rewrite = lambda request, result, of=method: "?" if request["method"] == of else result
            assert await scene.look(payment) is None
        first.rewrite = None

        assert isinstance(end(await scene.look(payment)), WindowClosed)
