"""Whether a node still has the logs of old blocks: some have pruned them, and say that there were none.

Their headers and transactions stay. What is asked for is a log that somebody's transaction certainly made, in
the way in which transfers are asked for.

Source: https://github.com/paradigmxyz/reth/pull/27002; https://github.com/erigontech/erigon/pull/16042.
"""

from __future__ import annotations

from typing import Final

from payd.chains.evm.answers import Log, decode_receipt
from payd.chains.evm.codec import from_hash, from_list, from_object, to_data, to_quantity
from payd.chains.rpc import Call, Node, Rpc
from payd.chains.rpc_errors import BadAnswer
from payd.chains.unread import good

# So many blocks are looked into, and of each so many transactions: one of them made a log, on chains with any
# life. The first ones of a block are often the chain's own, and make none.
BLOCKS: Final = 4
TRANSACTIONS: Final = 4
# Of these one is enough: some nodes list no logs of the chain's own transactions.
LOGS: Final = 4


async def remembers(rpc: Rpc, node: Node, first: int) -> bool:
    """Whether the node has the logs of a block and those that follow it, as far as that can be told.

    Args:
        rpc: The chain's nodes.
        node: One of them.
        first: The number of the block, well below the newest.

    Raises:
        Unread, BadAnswer, NodesDown: Its answer is none.
    """
    headers = await rpc.batch(
        [("eth_getBlockByNumber", to_quantity(first + place), False) for place in range(BLOCKS)], node=node
    )
    hashes = [
        from_hash(tx_hash)
        for header in headers
        for tx_hash in from_list(from_object(good(header)).get("transactions"))[-TRANSACTIONS:]
    ]
    if not hashes:
        return True
    said = await rpc.batch([("eth_getTransactionReceipt", one) for one in hashes], node=node)
    receipts = [good(one) for one in said]
    if not any(receipts):
        return False
    made = [log for receipt in receipts if (log := _first_log(receipt)) is not None]
    if not made:
        return True
    found = await rpc.batch([_call(log) for log in made[:LOGS]], node=node)
    return any(from_list(good(one)) for one in found)


def _first_log(receipt: object) -> Log | None:
    """One that can be asked for; none also of a receipt like no other, as some of the chains' own are."""
    try:
        whole = decode_receipt(receipt)
    except BadAnswer:
        return None
    return None if whole is None else next((log for log in whole.logs if log.topics), None)


def _call(log: Log) -> Call:
    number = to_quantity(log.block_number)
    wanted = {"address": [log.address], "topics": [to_data(log.topics[0])]}
    return ("eth_getLogs", {"fromBlock": number, "toBlock": number, **wanted})
