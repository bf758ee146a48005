"""Several nodes about a commitment that no transfer shows: as many as must agree end it, and none alone."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from solders.message import Message

from payd.chains.solana.binding import memo_of, reference_key, reference_of
from payd.chains.solana.build import split
from payd.chains.solana.ending import LISTED_MAX
from payd.chains.solana.failures import FROZEN, NO_FUNDS
from payd.chains.solana.track import read_track
from payd.core.errors import ChainUnavailable
from payd.core.payment import Payment, PaymentFailed, WindowClosed
from payd.store.db import Database
from payd.store.submissions import find_submission
from tests.chains.solana.scene import Scene, open_scene, sign
from tests.chains.solana.test_ending import FINAL, LIFE, end, failed, kill
from tests.live.proxy import Request
from tests.live.solana import (
    BUYER,
    BUYER_2,
    MERCHANT,
    USDC,
    USDC_MINT,
    keypair,
    memo,
    pay_sol,
    pay_token,
    pubkey,
)
from tests.live.solana_proxy import SolanaProxy, with_err

pytestmark = pytest.mark.real_time


@asynccontextmanager
async def two_nodes(db: Database) -> AsyncIterator[tuple[Scene, SolanaProxy, SolanaProxy]]:
    async with open_scene(db, proxies=2) as scene:
        first, second = scene.proxies
        yield scene, first, second


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


SILENT = [
    "one is a block behind",
    "one has not all slots",
    "one does not say since when it has them",
    "one keeps no history",
    "one does not list",
    "one knows no status yet",
]


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


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("doubt", [*SILENT])
async def test_of_three_nodes_two_are_enough_where_one_knows_nothing(
    realm_db: Database, doubt: str, place: int
) -> None:
    async with open_scene(realm_db, proxies=3) as scene:
        payment = await scene.signed()
        await scene.watch(LIFE + FINAL)
        DOUBTS[doubt](scene.proxies[place], payment)

        assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_a_node_that_has_a_status_is_heard_though_two_others_have_none(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=3) as scene:
        payment = await scene.signed()
        await scene.watch(LIFE + FINAL)
        DOUBTS["one keeps no history"](scene.proxies[0], payment)
        for other in (1, 2):
            scene.proxies[other].rewrite = with_status
            assert await scene.look(payment) is None
            scene.proxies[other].rewrite = None
        scene.proxies[0].errors.clear()
        scene.proxies[0].rewrite = with_status
        assert await scene.look(payment) is None, "whatever two others say"
        scene.proxies[0].rewrite = None

        assert isinstance(end(await scene.look(payment)), WindowClosed)


SHOWN = ["finalized", "confirmed", "status"]


@pytest.mark.parametrize("shown", SHOWN)
async def test_a_node_that_shows_it_in_any_way_is_heard_whatever_it_cannot_tell(
    realm_db: Database, shown: str
) -> None:
    """Two others lost it, and this one does not list."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] == "getSignatureStatuses":
            return result if shown == "status" else {**result, "value": [None]}
        if request["method"] == "getTransaction":
            return result if shown == request["params"][1]["commitment"] else None
        return result

    async with open_scene(realm_db, proxies=3) as scene:
        payment = await scene.signed()
        tx_id = await scene.bring()
        await scene.local.slots(LIFE + FINAL)
        for place in (1, 2):
            scene.proxies[place].node.forgotten.add(tx_id)
        scene.proxies[0].errors["getSignaturesForAddress"] = (-32601, "Method not found")
        scene.proxies[0].rewrite = rewrite
        assert await scene.look(payment) is None
        scene.proxies[0].node.forgotten.add(tx_id)

        assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_what_never_left_us_has_failed_by_nodes_that_know_how_far_they_are(realm_db: Database) -> None:
    """Something else was built for it that could have landed."""
    async with two_nodes(realm_db) as (scene, _, second):
        payment = await scene.payment()
        quote = await scene.quote(payment)
        await scene.quote(payment, buyer=BUYER_2, option_id="opt_2")
        payment = await scene.commit(payment, quote, sign(quote))
        await kill(scene, payment)
        await scene.watch(LIFE + FINAL)
        second.rewrite = statuses_of_before
        assert await scene.look(payment) is None
        second.rewrite = None

        assert isinstance(end(await scene.look(payment)), PaymentFailed)


async def test_what_more_name_by_one_node_alone_than_are_read_waits_for_the_window(
    realm_db: Database,
) -> None:
    async with two_nodes(realm_db) as (scene, _, second):
        payment = await scene.signed()
        for lamports in range(LISTED_MAX + 1):
            named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), lamports + 1, reference_key(payment.id))]
            await scene.local.send(named, keypair(BUYER_2))
        await scene.watch(LIFE + FINAL)
        second.node.forgotten.add(next(iter(scene.node.ledger.landed)))
        assert await scene.look(payment) is None
        await scene.local.rpc("payd_time", 901)
        await scene.watch(FINAL)

        assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_what_names_it_and_cannot_be_read_may_pay(realm_db: Database) -> None:
    async with two_nodes(realm_db) as (scene, _, second):
        payment = await scene.signed()
        named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), 1, reference_key(payment.id))]
        other = await scene.local.send(named, keypair(BUYER_2))
        await scene.watch(LIFE + FINAL)
        second.rewrite = lambda request, result: "?" if request["params"][:1] == [other] else result
        assert await scene.look(payment) is None
        second.rewrite = None

        assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_what_pays_by_one_of_three_nodes_keeps_it_open_whatever_two_others_show(
    realm_db: Database,
) -> None:
    async with open_scene(realm_db, proxies=3) as scene:
        payment = await scene.signed()
        named = [
            memo(memo_of(reference_of(payment.id))),
            pay_token(pubkey(BUYER_2), pubkey(MERCHANT), USDC_MINT, 25_000_000, reference_key(payment.id)),
        ]
        await scene.local.send(named, keypair(BUYER_2))
        await scene.local.slots(LIFE + FINAL)
        for place in (1, 2):
            scene.proxies[place].rewrite = with_err({"InstructionError": [4, {"Custom": 1}]})
        assert await scene.look(payment) is None
        scene.proxies[0].rewrite = with_err({"InstructionError": [4, {"Custom": 1}]})

        assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_nodes_that_do_not_answer_close_no_window(realm_db: Database) -> None:
    async with two_nodes(realm_db) as (scene, first, _):
        payment = await scene.signed()
        await scene.watch(LIFE + FINAL)
        first.status = 503
        with pytest.raises(ChainUnavailable):
            await scene.look(payment)


async def test_both_nodes_must_show_the_failure(realm_db: Database) -> None:
    async with two_nodes(realm_db) as (scene, _, second):
        payment = await failed(scene)
        await scene.watch(FINAL)
        second.node.lag = 1
        assert await scene.look(payment) is None
        second.node.lag = 0

        assert isinstance(end(await scene.look(payment)), PaymentFailed)


async def test_that_it_failed_counts_though_each_node_names_another_reason(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=3) as scene:
        payment = await failed(scene)
        await scene.watch(FINAL)
        scene.proxies[0].rewrite = frozen
        said = end(await scene.look(payment))
        assert isinstance(said, PaymentFailed)
        assert NO_FUNDS in said.reason, "two of three have the same"
        scene.proxies[1].rewrite = with_err("InsufficientFundsForRent")
        said = end(await scene.look(payment))
        assert isinstance(said, PaymentFailed)
        assert FROZEN in said.reason, "the first one's, where each has its own"
        scene.proxies[2].status = 503
        assert await scene.look(payment) is None, "who is not heard may have the same as one of them"


@pytest.mark.parametrize("place", [0, 1])
async def test_a_window_closes_where_one_node_forgot_what_failed(realm_db: Database, place: int) -> None:
    async with two_nodes(realm_db) as (scene, *both):
        payment = await failed(scene)
        both[place].node.forgotten.add(read_track(payment).tx_id)
        await scene.watch(FINAL)
        assert await scene.look(payment) is None
        await scene.watch(LIFE)

        assert isinstance(end(await scene.look(payment)), WindowClosed)


async def test_of_three_nodes_two_are_enough_for_a_failure(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=3) as scene:
        payment = await failed(scene)
        await scene.watch(FINAL)
        for place in (0, 1):
            scene.proxies[place].node.lag = FINAL
            assert isinstance(end(await scene.look(payment)), PaymentFailed)
            scene.proxies[place].node.lag = 0
        scene.proxies[0].rewrite = frozen
        assert isinstance(end(await scene.look(payment)), PaymentFailed)
        scene.proxies[0].rewrite = succeeding
        assert await scene.look(payment) is None


def succeeding(request: Request, result: Any) -> Any:
    """A node on which it did what it says, and is not final yet."""
    if request["method"] == "getTransaction" and request["params"][1]["commitment"] == "finalized":
        return None
    return with_err(None)(request, result)


def frozen(request: Request, result: Any) -> Any:
    """A node that shows another failure than the others."""
    if request["method"] != "getTransaction" or result is None:
        return result
    return {**result, "meta": {**result["meta"], "err": {"InstructionError": [3, {"Custom": 17}]}}}


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


async def test_of_three_nodes_two_are_enough_for_what_names_it_and_pays_nothing(realm_db: Database) -> None:
    async with open_scene(realm_db, proxies=3) as scene:
        payment = await scene.signed()
        named = [pay_sol(pubkey(BUYER_2), pubkey(BUYER), 1, reference_key(payment.id))]
        await scene.local.send(named, keypair(BUYER_2))
        await scene.watch(LIFE + FINAL)
        newest = next(reversed(scene.node.ledger.landed))
        scene.proxies[0].node.forgotten.add(newest)
        assert isinstance(end(await scene.look(payment)), WindowClosed)
        scene.proxies[2].node.forgotten.add(newest)

        assert await scene.look(payment) is None
