"""Repair by hand: a pasted transaction id is proven by nodes before anything is recorded."""

from __future__ import annotations

from copy import deepcopy

import pytest
import trio

from payd.actors.watch_list import WatchList
from payd.chains.evm.binding import payment_tag
from payd.chains.evm.proof import Watched
from payd.core.errors import ChainUnavailable, InvalidParams
from payd.core.payment import PaymentCancelled
from payd.store.db import Database
from tests.actors.watching import DOWN, Watching, open_watching
from tests.chains.evm.json import THIRD
from tests.chains.fake_chain import coin_transfer, reverted, token_transfer
from tests.till import ETH, PRICE


async def missed(watching: Watching) -> tuple[str, str]:
    """A payment, and the transaction that pays it, which the watcher did not find."""
    payment = await watching.till.sell()
    paid = watching.pay(payment)
    for view in watching.views:
        view.hides.add(paid.hash)
    await watching.watcher.run_once()
    assert watching.till.shown(paid.hash) == []
    return payment, paid.hash


async def test_a_transaction_that_was_missed_is_matched_and_its_payment_told(two_nodes: Watching) -> None:
    payment, tx_id = await missed(two_nodes)
    cursor = two_nodes.watcher.stats().read
    result = await two_nodes.watcher.match(f" {tx_id.upper().replace('0X', '0x')} ")
    assert (result.outcome, [one.kind for one in result.sightings]) == ("recorded", ["matched"])
    assert result.sightings == tuple(two_nodes.till.shown(tx_id))
    assert two_nodes.told == [payment]
    assert two_nodes.watcher.stats().read == cursor

    again = await two_nodes.watcher.match(tx_id)
    assert again.sightings == result.sightings
    assert two_nodes.till.count("transfers") == 1


async def test_what_pays_nothing_is_recorded_and_nobody_told(watching: Watching) -> None:
    payment, tx_id = await missed(watching)
    await watching.till.move(payment, PaymentCancelled("cancelled_by_user"))
    result = await watching.watcher.match(tx_id)
    assert [one.kind for one in result.sightings] == ["late"]
    assert "late" in result.words
    assert watching.told == []


async def test_the_coin_is_found_a_month_after_it_was_offered(watching: Watching) -> None:
    payment = await watching.till.sell(asset=ETH, value=10**16)
    await trio.sleep(20 * 24 * 3600)
    watching.chain.mine(paid := coin_transfer(10**16, payment_tag(payment)))
    watching.chain.mine()
    await watching.watcher.run_once()
    result = await watching.watcher.match(paid.hash)
    assert [(one.kind, one.payment_id) for one in result.sightings] == [("matched", payment)]


async def test_a_transaction_that_cannot_be_recorded_is_explained(watching: Watching) -> None:
    payment = await watching.till.sell()
    failed = reverted(token_transfer(PRICE, payment_tag(payment)))
    foreign = token_transfer(PRICE, payment_tag(payment), to=THIRD)
    watching.chain.mine(failed, foreign)
    await watching.watcher.run_once()
    paid = watching.pay(payment)
    found = {
        tx_id: (await watching.watcher.match(tx_id)).outcome
        for tx_id in ("0x" + "00" * 32, failed.hash, foreign.hash, paid.hash)
    }
    assert list(found.values()) == ["unknown", "reverted", "not_ours", "not_read_yet"]
    assert watching.till.count("transfers") == 0
    assert watching.told == []


async def test_a_transaction_that_waits_to_be_mined_is_explained(watching: Watching) -> None:
    _, tx_id = await missed(watching)
    watching.nodes[0].results["eth_getTransactionReceipt"] = None
    assert (await watching.watcher.match(tx_id)).outcome == "not_mined"
    assert watching.till.count("transfers") == 0


@pytest.mark.parametrize("method", ["eth_getTransactionByHash", "eth_getBlockByNumber"])
async def test_a_receipt_of_what_the_node_does_not_have_records_nothing(
    watching: Watching, method: str
) -> None:
    _, tx_id = await missed(watching)
    watching.nodes[0].results[method] = None
    assert (await watching.watcher.match(tx_id)).outcome == "disagreement"
    assert watching.till.count("transfers") == 0


@pytest.mark.parametrize("text", ["", "0x12", "pay_l1", "0x" + "zz" * 32, "0x" + "00" * 33])
async def test_what_is_no_transaction_id_is_refused(watching: Watching, text: str) -> None:
    with pytest.raises(InvalidParams):
        await watching.watcher.match(text)


async def test_one_node_that_lies_records_nothing(two_nodes: Watching) -> None:
    _, tx_id = await missed(two_nodes)
    honest = two_nodes.nodes[0].results["eth_getTransactionReceipt"]

    def larger(asked: str) -> object:
        receipt = honest(asked)
        [log] = receipt["logs"]
        return {**receipt, "logs": [{**log, "data": "0x" + "77" * 32}]}

    for lie in (larger, lambda asked: None, lambda asked: {**honest(asked), "status": "0x0"}):
        two_nodes.nodes[0].results["eth_getTransactionReceipt"] = lie
        assert (await two_nodes.watcher.match(tx_id)).outcome == "disagreement"
    assert two_nodes.till.count("transfers") == 0


@pytest.mark.parametrize("method", ["eth_getTransactionReceipt", "eth_getTransactionByHash"])
async def test_of_three_nodes_one_that_has_forgotten_it_hides_nothing(
    realm_db: Database, method: str
) -> None:
    async with open_watching(realm_db, 3) as watching:
        payment, tx_id = await missed(watching)
        watching.nodes[0].results[method] = None
        watching.nodes[2].does = DOWN
        assert (await watching.watcher.match(tx_id)).outcome == "disagreement"
        watching.nodes[2].does = None
        assert (await watching.watcher.match(tx_id)).outcome == "recorded"
        assert watching.told == [payment]


async def test_what_one_of_three_nodes_alone_shows_is_not_recorded(realm_db: Database) -> None:
    async with open_watching(realm_db, 3) as watching:
        _, tx_id = await missed(watching)
        for node in watching.nodes[:2]:
            node.results["eth_getTransactionReceipt"] = node.results["eth_getTransactionByHash"] = None
        assert (await watching.watcher.match(tx_id)).outcome == "disagreement"
        assert watching.till.count("transfers") == 0


async def test_a_number_that_one_node_gives_its_block_records_nothing(two_nodes: Watching) -> None:
    """What is said to be in another block than it is in is never proven by the other node."""
    _, tx_id = await missed(two_nodes)
    receipt = two_nodes.nodes[0].results["eth_getTransactionReceipt"]
    block = two_nodes.nodes[0].results["eth_getBlockByNumber"]
    two_nodes.nodes[0].results["eth_getTransactionReceipt"] = lambda asked: (
        receipt(asked) | {"blockNumber": "0x1"}
    )
    for named in ("0x1", receipt(tx_id)["blockNumber"]):
        two_nodes.nodes[0].results["eth_getBlockByNumber"] = lambda number, full, named=named: (
            block(receipt(tx_id)["blockNumber"] if number == "0x1" else number, full) | {"number": named}
        )
        assert (await two_nodes.watcher.match(tx_id)).outcome == "disagreement"
    assert two_nodes.till.count("transfers") == 0


async def test_nodes_that_do_not_agree_when_it_was_record_nothing(two_nodes: Watching) -> None:
    _, tx_id = await missed(two_nodes)
    two_nodes.views[0].ahead_s = 90
    assert (await two_nodes.watcher.match(tx_id)).outcome == "disagreement"


@pytest.mark.parametrize("method", ["eth_getTransactionReceipt", "eth_getTransactionByHash"])
async def test_a_transaction_of_another_fork_records_nothing(watching: Watching, method: str) -> None:
    _, tx_id = await missed(watching)
    honest = watching.nodes[0].results[method]
    watching.nodes[0].results[method] = lambda asked: {
        **honest(asked),
        "blockHash": "0x" + "66" * 32,
        "logs": [],
    }
    assert (await watching.watcher.match(tx_id)).outcome == "disagreement"


async def test_what_a_reorg_takes_while_it_is_read_is_not_in_the_way_of_what_pays(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment, tx_id = await missed(watching)
    honest = WatchList.everything

    async def meanwhile(watch_list: WatchList) -> Watched:
        watching.chain.reorg(1)
        assert await watching.watcher.run_once()
        return await honest(watch_list)

    monkeypatch.setattr(WatchList, "everything", meanwhile)
    assert (await watching.watcher.match(tx_id)).outcome == "disagreement"
    assert watching.till.count("transfers") == 0
    paid = watching.pay(payment)
    await watching.watcher.run_once()
    assert watching.till.kinds(paid.hash) == ["matched"]


async def test_no_node_names_another_block_than_the_one_that_was_read(watching: Watching) -> None:
    """Behind one address may be several, and one of them on a fork."""
    _, tx_id = await missed(watching)
    fork = deepcopy(watching.chain)
    [transaction] = watching.chain.head.transactions
    fork.reorg(1, [transaction], [])
    assert fork.find(tx_id) != watching.chain.find(tx_id)
    watching.views[0].chain = fork
    assert (await watching.watcher.match(tx_id)).outcome == "disagreement"
    assert watching.till.count("transfers") == 0


async def test_one_of_two_nodes_is_enough_where_the_other_is_away(two_nodes: Watching) -> None:
    payment, tx_id = await missed(two_nodes)
    two_nodes.nodes[0].does = DOWN
    assert (await two_nodes.watcher.match(tx_id)).outcome == "recorded"
    assert two_nodes.told == [payment]


async def test_without_a_node_nothing_is_known(realm_db: Database) -> None:
    async with open_watching(realm_db, 2) as watching:
        _, tx_id = await missed(watching)
        for node in watching.nodes:
            node.does = DOWN
        with pytest.raises(ChainUnavailable) as found:
            await watching.watcher.match(tx_id)
        assert not any(node.name in str(found.value) for node in watching.rpc.nodes), "merchants read this"
