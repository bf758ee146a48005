"""Proof of a transfer: nodes that must agree show it, each by its own data; one lie is enough for doubt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from payd.chains.solana.evidence import Evidence
from payd.chains.solana.terms import Commitment
from payd.chains.solana.track import Track, read_track
from payd.chains.witnesses import Proof
from payd.core.errors import ChainUnavailable
from payd.store.db import Database
from payd.store.sightings import Sighting
from tests.chains.solana.scene import TERMS, Scene, open_scene
from tests.live.proxy import Request, Rewrite
from tests.live.solana import PYUSD, SOL, STRANGER, USDC, USDT, address
from tests.live.solana_proxy import SolanaProxy, with_err, with_level, with_more, with_owner

pytestmark = pytest.mark.real_time


class Court:
    """A transfer that is confirmed, and nodes to ask about it."""

    def __init__(self, scene: Scene, row: Sighting, track: Track) -> None:
        self.scene = scene
        self.row = row
        self.track = track
        self.nodes = scene.proxies
        self.evidence = Evidence(scene.rpc, TERMS.chain)

    async def prove(self, depth: Commitment = "confirmed") -> Proof:
        return await self.evidence.prove(self.row, self.track, depth)

    async def deny(self) -> bool:
        return await self.evidence.deny(self.row)


@asynccontextmanager
async def open_court(db: Database, nodes: int = 2, asset: str = USDC) -> AsyncIterator[Court]:
    async with open_scene(db, proxies=nodes) as scene:
        payment = await scene.paid(asset)
        yield Court(scene, scene.row(payment), read_track(payment))


@pytest.mark.parametrize("asset", [USDC, PYUSD, SOL])
@pytest.mark.parametrize("nodes", [0, 2])
async def test_what_the_nodes_show_alike_is_proven_as_far_as_it_has_come(
    realm_db: Database, nodes: int, asset: str
) -> None:
    async with open_court(realm_db, nodes, asset) as court:
        assert [await court.prove("confirmed"), await court.prove("finalized")] == ["deep", "shallow"]
        await court.scene.local.slots(3)
        assert [await court.prove("confirmed"), await court.prove("finalized")] == ["deep", "deep"]
        assert court.evidence.disagreements == 0


def moved_by(slots: int) -> Rewrite:
    """Rewrites transactions: they are in another slot."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] != "getTransaction" or result is None:
            return result
        return {**result, "slot": result["slot"] + slots}

    return rewrite


def with_asset(mint: str) -> Rewrite:
    """Rewrites transactions: they moved another token, of the same name for all one sees."""

    def rewrite(request: Request, result: Any) -> Any:
        if request["method"] != "getTransaction" or result is None:
            return result
        meta = result["meta"]
        changed = {
            name: [{**one, "mint": mint} for one in meta[name]]
            for name in ("preTokenBalances", "postTokenBalances")
        }
        return {**result, "meta": {**meta, **changed}}

    return rewrite


def nothing(request: Request, result: Any) -> Any:
    return None if request["method"] == "getTransaction" else result


def rubbish(request: Request, result: Any) -> Any:
    return {"slot": "one"} if request["method"] == "getTransaction" else result


LIES: dict[str, Rewrite] = {
    "the transaction failed": with_err({"InstructionError": [3, {"Custom": 1}]}),
    "it was more": with_more(1),
    "it was less": with_more(-1),
    "the money went to somebody else": with_owner(address(STRANGER)),
    "it was another token": with_asset(USDT.rpartition(":")[2]),
    "it was in another slot": moved_by(1),
    "there is no such transaction": nothing,
    "it is no answer": rubbish,
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("liar", [0, 1])
async def test_one_node_that_shows_something_else_is_enough_for_doubt(
    realm_db: Database, lie: str, liar: int
) -> None:
    async with open_court(realm_db) as court:
        court.nodes[liar].rewrite = LIES[lie]

        assert await court.prove() == "none"
        assert court.evidence.disagreements == 1


@pytest.mark.parametrize("lie", LIES)
async def test_of_three_nodes_two_that_agree_prove_against_one_that_does_not(
    realm_db: Database, lie: str
) -> None:
    async with open_court(realm_db, 3) as court:
        court.nodes[0].rewrite = LIES[lie]

        assert await court.prove() == "deep"
        court.nodes[2].rewrite = LIES[lie]
        assert await court.prove() == "none"


@pytest.mark.parametrize(
    "change",
    [
        {"value": "24999999"},
        {"asset": USDT},
        {"recipient": f"{TERMS.chain}:{address(STRANGER)}"},
        {"reference": bytes(32)},
    ],
)
async def test_what_was_not_committed_is_not_proven(realm_db: Database, change: dict[str, Any]) -> None:
    async with open_court(realm_db) as court:
        court.track = msgspec.structs.replace(court.track, **change)

        assert await court.prove() == "none"


async def test_what_a_merchant_named_needs_no_reference(realm_db: Database) -> None:
    async with open_court(realm_db) as court:
        court.track = msgspec.structs.replace(court.track, reference=bytes(32))
        court.row = msgspec.structs.replace(court.row, assigned=True)

        assert await court.prove() == "deep"


@pytest.mark.parametrize("change", [{"log_index": 0}, {"block_number": 1}])
async def test_a_transfer_is_proven_in_its_place_alone(realm_db: Database, change: dict[str, Any]) -> None:
    async with open_court(realm_db) as court:
        court.row = msgspec.structs.replace(court.row, **change)

        assert await court.prove() == "none"


async def test_what_is_final_in_another_slot_only_is_not_final_yet(realm_db: Database) -> None:
    """Behind one address are two nodes, of which one knows of a fork."""
    async with open_court(realm_db) as court:
        await court.scene.local.slots(3)

        def elsewhere(request: Request, result: Any) -> Any:
            is_final = (
                request["method"] == "getTransaction" and request["params"][1]["commitment"] == "finalized"
            )
            return moved_by(1)(request, result) if is_final else result

        court.nodes[1].rewrite = elsewhere
        assert await court.prove("finalized") == "shallow"
        court.nodes[1].rewrite = None

        assert await court.prove("finalized") == "deep"


async def test_both_nodes_must_have_come_as_far(realm_db: Database) -> None:
    async with open_court(realm_db) as court:
        await court.scene.local.slots(3)
        court.nodes[1].node.lag = 1
        assert await court.prove("finalized") == "shallow"
        assert await court.prove("confirmed") == "deep"
        court.nodes[1].node.lag = 0

        assert await court.prove("finalized") == "deep"
        assert court.evidence.disagreements == 0


async def test_a_node_that_knows_no_finality_is_never_far_enough(realm_db: Database) -> None:
    async with open_court(realm_db) as court:
        await court.scene.local.slots(3)

        def without(request: Request, result: Any) -> Any:
            is_final = request["method"] == "getTransaction" and "finalized" in str(request["params"])
            return "?" if is_final else result

        court.nodes[1].rewrite = without
        assert await court.prove("finalized") == "shallow"
        assert await court.prove("confirmed") == "deep"


async def test_a_node_that_is_down_is_no_witness(realm_db: Database) -> None:
    async with open_court(realm_db) as court:
        court.nodes[0].status = 503
        with pytest.raises(ChainUnavailable):
            await court.prove()


async def test_a_third_node_stands_in_for_one_that_is_down(realm_db: Database) -> None:
    async with open_court(realm_db, 3) as court:
        court.nodes[0].status = 503

        assert await court.prove() == "deep"


# Denial.


async def gone(court: Court) -> None:
    """No node knows the transaction any more, and its slot is final."""
    for one in court.nodes:
        one.node.forgotten.add(court.row.tx_id)
    await court.scene.local.slots(3)


async def test_a_transfer_that_no_node_knows_is_denied_once_its_slot_is_final(realm_db: Database) -> None:
    async with open_court(realm_db) as court:
        for one in court.nodes:
            one.node.forgotten.add(court.row.tx_id)
        await court.scene.local.slots(2)
        assert not await court.deny()
        await court.scene.local.slots(1)

        assert await court.deny()


async def test_a_transfer_that_there_is_is_not_denied(realm_db: Database) -> None:
    async with open_court(realm_db) as court:
        await court.scene.local.slots(50)

        assert not await court.deny()


DOUBTS = [
    "one knows it",
    "one is not so far",
    "one has no memory",
    "one keeps no history",
    "one is down",
    "one lags inside",
    "one is on a fork inside",
]


def statuses_of_before(request: Request, result: Any) -> Any:
    """The node behind the same address that answers this is another one."""
    if request["method"] != "getSignatureStatuses":
        return result
    return {**result, "context": {"slot": result["context"]["slot"] - 5}}


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_as_long_as_one_of_two_nodes_is_in_doubt_nothing_is_denied(
    realm_db: Database, doubt: str
) -> None:
    async with open_court(realm_db) as court:
        await gone(court)
        bad: SolanaProxy = court.nodes[1]
        match doubt:
            case "one knows it":
                bad.node.forgotten.clear()
            case "one is not so far":
                bad.node.lag = 1
            case "one has no memory":
                bad.node.first_slot = court.row.block_number
                assert await court.deny(), "it has that slot"
                bad.node.first_slot = court.row.block_number + 1
            case "one keeps no history":
                bad.errors["getTransaction"] = (-32011, "Transaction history is not available from this node")
            case "one is down":
                bad.status = 503
            case "one lags inside":
                bad.rewrite = statuses_of_before
            case "one is on a fork inside":
                bad.node.forgotten.clear()
                bad.rewrite = moved_by(1)

        assert not await court.deny()


async def test_a_status_alone_keeps_a_transfer(realm_db: Database) -> None:
    async with open_court(realm_db) as court:
        await court.scene.local.slots(3)
        for one in court.nodes:
            one.rewrite = nothing
        assert not await court.deny()
        # And so does the transaction.
        for one in court.nodes:
            one.rewrite = with_level(None)

        assert not await court.deny()


@pytest.mark.parametrize(
    "lie",
    ["the transaction failed", "it was more", "the money went to somebody else", "it was another token"],
)
async def test_what_the_nodes_show_as_final_and_otherwise_is_denied(realm_db: Database, lie: str) -> None:
    """Whoever showed it first was wrong."""
    async with open_court(realm_db) as court:
        for one in court.nodes:
            one.rewrite = LIES[lie]
        await court.scene.local.slots(2)
        assert not await court.deny()
        await court.scene.local.slots(1)

        assert await court.deny()


async def test_what_came_to_another_account_is_denied_where_it_was_shown(realm_db: Database) -> None:
    async with open_court(realm_db) as court:
        await court.scene.local.slots(3)
        assert not await court.deny()
        court.row = msgspec.structs.replace(court.row, log_index=court.row.log_index + 1)

        assert await court.deny()


async def test_what_landed_again_in_another_slot_is_denied_where_it_was(realm_db: Database) -> None:
    async with open_court(realm_db) as court:
        await court.scene.local.rpc("payd_fork", 2)
        await court.scene.bring()
        await court.scene.local.slots(3)
        assert not await court.deny()
        await court.scene.local.slots(1)

        assert await court.deny()
