"""Proof of a transfer: nodes that must agree show it, each by its own data; one lie is enough for doubt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from payd.chains.evm.dialect import EvmDialect
from payd.chains.evm.evidence import Evidence
from payd.chains.evm.track import Track, read_track
from payd.chains.rpc import Rpc
from payd.chains.witnesses import Proof
from payd.core.errors import ChainUnavailable
from payd.core.payment import Payment
from payd.store.db import Database
from payd.store.sightings import Sighting, matched_of
from tests.chains.evm.scene import CHAIN, ETH, Scene, open_scene, sign
from tests.live.anvil import Anvil, Refused
from tests.live.chain import RELAYER, address
from tests.live.proxy import FlakyProxy, Request, open_proxy, with_status, without_logs

pytestmark = pytest.mark.real_time


class Court:
    """A transfer that is two blocks deep, and nodes to ask about it."""

    def __init__(self, scene: Scene, row: Sighting, track: Track, nodes: list[FlakyProxy], rpc: Rpc) -> None:
        self.scene = scene
        self.row = row
        self.track = track
        self.nodes = nodes
        self.evidence = Evidence(rpc, CHAIN)

    async def prove(self, depth: Any = 2) -> Proof:
        return await self.evidence.prove(self.row, self.track, depth)


@asynccontextmanager
async def open_court(db: Database, anvil: Anvil, nodes: int = 2, way: str = "usdc") -> AsyncIterator[Court]:
    async with open_scene(db, anvil) as scene:
        payment = await paid(scene, way)
        await scene.watch(1)
        [row] = scene.db.point(matched_of, payment.id)
        async with open_nodes(anvil, nodes) as (proxies, rpc):
            yield Court(scene, row, read_track(payment), proxies, rpc)


@asynccontextmanager
async def open_nodes(anvil: Anvil, count: int) -> AsyncIterator[tuple[list[FlakyProxy], Rpc]]:
    if count == 0:
        rpc = Rpc([anvil.url], EvmDialect(31337))
        yield [], rpc
        await rpc.aclose()
        return
    async with open_proxy(anvil) as proxy, open_more(anvil, count - 1) as others:
        proxies = [proxy, *others]
        rpc = Rpc([one.url for one in proxies], EvmDialect(31337))
        yield proxies, rpc
        await rpc.aclose()


@asynccontextmanager
async def open_more(anvil: Anvil, count: int) -> AsyncIterator[list[FlakyProxy]]:
    if count == 0:
        yield []
        return
    async with open_proxy(anvil) as proxy, open_more(anvil, count - 1) as others:
        yield [proxy, *others]


async def paid(scene: Scene, way: str) -> Payment:
    payment = await scene.payment()
    asset = {"usdc": scene.usdc_asset, "dai": scene.dai_asset, "coin": ETH}[way]
    quote = await scene.quote(payment, asset)
    if way == "usdc":
        payment = await scene.commit(payment, quote, sign(quote.actions[0]))
        await scene.relay()
    else:
        tx_hash = await scene.send(quote)
        await scene.chain.receipt(tx_hash)
        payment = await scene.commit(payment, quote, tx_hash)
    await scene.watch()
    return payment


def changing(method: str, change: Callable[[Any], Any]) -> Callable[[Request, Any], Any]:
    """Rewrites what a node says to one method."""
    return lambda request, result: change(result) if request["method"] == method and result else result


def moved_to(to: str) -> Callable[[Any], Any]:
    """A receipt whose transfers went to somebody else."""

    def change(receipt: Any) -> Any:
        word = "0x" + to[2:].lower().rjust(64, "0")
        logs = [
            {**log, "topics": [*log["topics"][:2], word]} if len(log["data"]) > 2 else log
            for log in receipt["logs"]
        ]
        return {**receipt, "logs": logs}

    return change


def of_value(value: int) -> Callable[[Any], Any]:
    """A receipt whose transfers moved another amount."""

    def change(receipt: Any) -> Any:
        logs = [
            {**log, "data": f"0x{value:064x}"} if len(log["data"]) > 2 else log for log in receipt["logs"]
        ]
        return {**receipt, "logs": logs}

    return change


def all_addresses(address: str) -> Callable[[Any], Any]:
    """A receipt whose logs are of another contract."""
    return lambda receipt: {**receipt, "logs": [{**log, "address": address} for log in receipt["logs"]]}


@pytest.mark.parametrize("way", ["usdc", "dai", "coin"])
@pytest.mark.parametrize("nodes", [0, 2])
async def test_what_the_nodes_show_alike_is_proven_as_deep_as_it_lies(
    realm_db: Database, anvil: Anvil, way: str, nodes: int
) -> None:
    async with open_court(realm_db, anvil, nodes, way) as court:
        depths = [1, 2, 3, "safe", "finalized"]
        proofs = [await court.prove(depth) for depth in depths]

        assert proofs == ["deep", "deep", "shallow", "deep", "shallow"]
        await court.scene.chain.mine(1)
        assert await court.prove(3) == "deep"
        assert await court.prove("finalized") == "deep"
        assert court.evidence.disagreements == 0


def of_another_transaction(request: Request, result: Any) -> Any:
    """All that is said is of another transaction, which paid the same in the same place."""
    other = "0x" + "12" * 32
    if request["method"] == "eth_getTransactionByHash":
        return {**result, "hash": other}
    return {**result, "transactionHash": other} if "transactionHash" in result else result


LIES: dict[str, Callable[[Request, Any], Any]] = {
    "all of it is another transaction": of_another_transaction,
    "the transaction was reverted": with_status(0),
    "the receipt has no logs": without_logs,
    "the money went to somebody else": changing("eth_getTransactionReceipt", moved_to(address(RELAYER))),
    "it was less": changing("eth_getTransactionReceipt", of_value(24_999_999)),
    "it was more": changing("eth_getTransactionReceipt", of_value(25_000_001)),
    "it was another token": changing("eth_getTransactionReceipt", all_addresses("0x" + "12" * 20)),
    "it was another transaction": changing(
        "eth_getTransactionByHash", lambda sent: {**sent, "hash": "0x" + "12" * 32}
    ),
    "the receipt is of another block": changing(
        "eth_getTransactionReceipt", lambda said: {**said, "blockHash": "0x" + "12" * 32, "logs": []}
    ),
    "another block stands there": changing(
        "eth_getBlockByNumber", lambda block: {**block, "hash": "0x" + "12" * 32}
    ),
    "the receipt is of another height": changing(
        "eth_getTransactionReceipt", lambda said: {**said, "blockNumber": "0x1"}
    ),
    "the receipt is junk": changing("eth_getTransactionReceipt", lambda said: {"status": "0x1"}),
    "there is no receipt": changing("eth_getTransactionReceipt", lambda said: None),
    "there is no transaction": changing("eth_getTransactionByHash", lambda said: None),
    "there is no block": changing("eth_getBlockByNumber", lambda said: None),
}


@pytest.mark.parametrize(("nodes", "liar"), [(2, 0), (2, 1), (1, 0)])
async def test_a_node_that_says_otherwise_is_doubt(
    realm_db: Database, anvil: Anvil, nodes: int, liar: int
) -> None:
    async with open_court(realm_db, anvil, nodes) as court:
        proofs = {}
        for name, lie in LIES.items():
            court.nodes[liar].rewrite = lie
            proofs[name] = await court.prove(1)

        assert proofs == dict.fromkeys(LIES, "none")
        assert court.evidence.disagreements == len(LIES)
        court.nodes[liar].rewrite = None
        assert await court.prove(1) == "deep"


@pytest.mark.parametrize(
    "tag",
    [
        {"input": "0x"},
        {"input": "0xa9059cbb" + "00" * 96},
    ],
)
async def test_a_node_that_shows_another_tag_is_doubt(
    realm_db: Database, anvil: Anvil, tag: dict[str, str]
) -> None:
    async with open_court(realm_db, anvil, way="dai") as court:
        court.nodes[1].rewrite = changing("eth_getTransactionByHash", lambda sent: {**sent, **tag})

        assert await court.prove(1) == "none"


@pytest.mark.parametrize("change", [{"value": "0x1"}, {"to": "0x" + "12" * 20}, {"input": "0x"}])
async def test_a_node_that_shows_other_coins_is_doubt(
    realm_db: Database, anvil: Anvil, change: dict[str, str]
) -> None:
    async with open_court(realm_db, anvil, way="coin") as court:
        court.nodes[0].rewrite = changing("eth_getTransactionByHash", lambda sent: {**sent, **change})

        assert await court.prove(1) == "none"


async def test_a_node_that_lags_makes_a_payment_wait_for_it(realm_db: Database, anvil: Anvil) -> None:
    async with open_court(realm_db, anvil) as court:
        court.nodes[1].lag = 1
        assert await court.prove(1) == "deep"
        assert await court.prove(2) == "shallow"
        court.nodes[1].lag = 2
        assert await court.prove(1) == "none"
        court.nodes[1].lag = 0
        assert await court.prove(2) == "deep"


async def test_a_node_without_the_tag_is_never_deep_enough(realm_db: Database, anvil: Anvil) -> None:
    async with open_court(realm_db, anvil) as court:
        await court.scene.chain.mine(5)

        def without_tag(request: Request, result: Any) -> Any:
            if request["params"][:1] == ["finalized"]:
                raise Refused(-32602, "invalid block tag")
            return result

        assert await court.prove("finalized") == "deep"
        court.nodes[1].rewrite = without_tag
        assert await court.prove("finalized") == "shallow"


async def test_of_three_nodes_two_that_agree_are_enough(realm_db: Database, anvil: Anvil) -> None:
    async with open_court(realm_db, anvil, 3) as court:
        court.nodes[0].rewrite = without_logs
        assert await court.prove(2) == "deep"
        court.nodes[2].rewrite = with_status(0)
        assert await court.prove(2) == "none"


async def test_two_are_asked_and_the_third_only_in_doubt(realm_db: Database, anvil: Anvil) -> None:
    async with open_court(realm_db, anvil, 3) as court:
        await court.prove(2)
        assert court.nodes[2].calls["eth_getTransactionReceipt"] == 0
        court.nodes[1].rewrite = without_logs
        await court.prove(2)
        assert court.nodes[2].calls["eth_getTransactionReceipt"] == 1


@pytest.mark.parametrize("nodes", [1, 2])
async def test_too_few_nodes_are_no_evidence(realm_db: Database, anvil: Anvil, nodes: int) -> None:
    async with open_court(realm_db, anvil, nodes) as court:
        court.nodes[-1].status = 503
        with pytest.raises(ChainUnavailable):
            await court.prove(1)


@pytest.mark.parametrize(
    "change", [{"log_index": 99}, {"block_hash": "0x" + "12" * 32}, {"block_number": 1}], ids=str
)
async def test_a_transfer_is_proven_in_its_place_alone(
    realm_db: Database, anvil: Anvil, change: dict[str, Any]
) -> None:
    async with open_court(realm_db, anvil) as court:
        court.row = msgspec.structs.replace(court.row, **change)

        assert await court.prove(1) == "none"


async def test_a_binding_of_another_payment_is_none(realm_db: Database, anvil: Anvil) -> None:
    async with open_court(realm_db, anvil) as court:
        court.track = msgspec.structs.replace(court.track, bindings=(b"\1" * 32,))

        assert await court.prove(1) == "none"


async def test_a_transfer_in_a_block_that_a_reorg_took_is_not_proven(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_court(realm_db, anvil) as court:
        await court.scene.chain.reorg(2)
        await court.scene.chain.mine(5)

        assert await court.prove(1) == "none"


async def test_the_same_transfer_in_another_block_is_not_proven_where_it_is_stored(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_court(realm_db, anvil) as court:
        raw = await court.scene.chain.rpc("eth_getRawTransactionByHash", court.row.tx_id)
        await court.scene.chain.reorg(2, [(bytes.fromhex(raw[2:]), 1)])
        await court.scene.chain.mine(5)
        receipt = await court.scene.chain.rpc("eth_getTransactionReceipt", court.row.tx_id)

        assert receipt["status"] == "0x1"
        assert await court.prove(1) == "none"
        block = int(receipt["blockNumber"], 16)
        court.row = msgspec.structs.replace(court.row, block_number=block, block_hash=receipt["blockHash"])
        assert await court.prove(1) == "deep"


# The contrary.


async def test_a_transfer_is_denied_by_nodes_that_have_its_block_as_final_without_it(
    realm_db: Database, anvil: Anvil
) -> None:
    async with open_court(realm_db, anvil) as court:
        for node in court.nodes:
            node.hidden.add(court.row.tx_id)
        assert not await court.evidence.deny(court.row, "finalized")
        await court.scene.chain.mine(1)
        assert await court.evidence.deny(court.row, "finalized")
        assert await court.evidence.deny(court.row, 3)
        assert not await court.evidence.deny(court.row, 4)
        for node in court.nodes:
            node.rewrite = LIES["another block stands there"]
        assert await court.evidence.deny(court.row, 3)
        assert not await court.evidence.deny(court.row, 4)


async def test_one_node_alone_denies_nothing_where_there_are_two(realm_db: Database, anvil: Anvil) -> None:
    async with open_court(realm_db, anvil) as court:
        await court.scene.chain.mine(3)
        court.nodes[0].hidden.add(court.row.tx_id)

        assert not await court.evidence.deny(court.row, "finalized")


def not_yet_known(request: Request, result: Any) -> Any:
    """Behind one address are several nodes: one has the block, and who is asked for the rest lags."""
    return None if request["method"] in ("eth_getTransactionByHash", "eth_getTransactionReceipt") else result


def known_by_half(request: Request, result: Any) -> Any:
    """Who is asked for the block has another form of it, and who is asked for the rest has no receipt."""
    if request["method"] == "eth_getBlockByNumber":
        return {**result, "transactions": []}
    return None if request["method"] == "eth_getTransactionReceipt" else result


def moved_and_not_yet_known(request: Request, result: Any) -> Any:
    """The transaction is in another block of this height; who is asked for the rest lags."""
    return not_yet_known(request, LIES["another block stands there"](request, result))


def of_another_block_and_less(request: Request, result: Any) -> Any:
    """The receipt is of the block that was stored, and says less, and another block stands in its place."""
    return LIES["it was less"](request, LIES["another block stands there"](request, result))


@pytest.mark.parametrize(
    ("lie", "denied"),
    [
        (None, False),
        (LIES["it was less"], True),
        (LIES["the money went to somebody else"], True),
        (LIES["the transaction was reverted"], True),
        (LIES["another block stands there"], False),
        (LIES["the receipt is junk"], False),
        (LIES["there is no receipt"], False),
        (LIES["there is no transaction"], False),
        (LIES["the receipt is of another block"], False),
        (not_yet_known, False),
        (known_by_half, False),
        (moved_and_not_yet_known, True),
        (of_another_block_and_less, False),
    ],
)
async def test_nodes_deny_what_their_own_block_does_not_have_and_nothing_by_half(
    realm_db: Database, anvil: Anvil, lie: Callable[[Request, Any], Any] | None, denied: bool
) -> None:
    async with open_court(realm_db, anvil) as court:
        await court.scene.chain.mine(3)
        for node in court.nodes:
            node.rewrite = lie

        assert await court.evidence.deny(court.row, "finalized") is denied


async def test_a_transfer_is_denied_where_its_transaction_has_none(realm_db: Database, anvil: Anvil) -> None:
    """The same amount went to the same address in another place of the transaction."""
    async with open_court(realm_db, anvil) as court:
        await court.scene.chain.mine(3)
        court.row = msgspec.structs.replace(court.row, log_index=court.row.log_index + 1)

        assert await court.evidence.deny(court.row, "finalized")


async def test_what_another_block_took_is_denied_once_that_one_is_final(
    realm_db: Database, anvil: Anvil
) -> None:
    """The watcher follows reorgs, and takes back what was above; but not a block that a node made up."""
    async with open_court(realm_db, anvil) as court:
        await court.scene.chain.reorg(2)
        assert not await court.evidence.deny(court.row, 5)
        await court.scene.chain.mine(5)
        assert await court.evidence.deny(court.row, 5)
        court.nodes[0].lag = 4

        assert not await court.evidence.deny(court.row, 5)
