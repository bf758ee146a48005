"""What a relayer must know before it does anything: its nonce, its balance, what gas costs, the chain's time.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from payd.chains.evm.answers import decode_block
from payd.chains.evm.codec import from_count, from_quantity
from payd.chains.rpc import Call, Node, NodesDown, Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.witnesses import WITNESSES, needed
from payd.core.gas import Market

# Where a node suggests no tip and names no price: one gwei, which most chains take.
TIP_FALLBACK: Final = 10**9


class Survey(msgspec.Struct, frozen=True):
    """The state of a chain and of an account on it.

    Attributes:
        head: The newest block.
        time_s: That all nodes have reached; Unix seconds of the chain. No later than ours by the word of one.
        count: How many transactions of the account the chain has at least, which is its next nonce.
        sure: As many by the word of every node that was asked, or of two of them where others say otherwise;
            0 by the word of one, where there are more.
        balance: Smallest units of the native coin; of two words the higher: too much of it buys nothing.
        market: What gas costs; of two words the lower, as what is too little is raised while it waits.
    """

    head: int
    time_s: int
    count: int
    sure: int
    balance: int
    market: Market


async def survey(rpc: Rpc, address: str, now_s: int) -> Survey:
    """Ask two nodes, if there are two, and combine what they say: none can hide a transaction or run ahead.

    Where they count otherwise, and there are more, all are asked: what two have counted is so. While the
    others are away, one alone neither names a nonce nor ends what was signed.

    Never the node's count of pending transactions: each node has its own idea of those.

    Args:
        rpc: The nodes.
        address: Of the account.
        now_s: Unix seconds, ours.

    Raises:
        NodesDown: None gave an answer that can be read.
    """
    calls: list[Call] = [
        ("eth_getTransactionCount", address, "latest"),
        ("eth_getBlockByNumber", "latest", False),
        ("eth_getBalance", address, "latest"),
        ("eth_maxPriorityFeePerGas",),
        ("eth_gasPrice",),
    ]
    views = _views(await rpc.ask_all(calls, at_most=WITNESSES))
    if len({view.count for view in views}) > 1 and len(rpc.nodes) > WITNESSES:
        views = _views(await rpc.ask_all(calls))
    if not views:
        raise NodesDown("no node says how the relayer stands")
    counts = sorted((view.count for view in views), reverse=True)
    # Of three, two are right, and of two nobody knows which.
    witnessed = counts[1] if len(counts) > WITNESSES else None
    is_alone, time_s = len(views) < needed(rpc), min(view.time_s for view in views)
    return Survey(
        head=max(view.head for view in views),
        time_s=min(time_s, now_s) if is_alone else time_s,
        count=counts[0] if witnessed is None else witnessed,
        sure=0 if is_alone else counts[-1] if witnessed is None else witnessed,
        balance=max(view.balance for view in views),
        market=_cheapest([view.market for view in views]),
    )


def _views(answers: Sequence[tuple[Node, Results]]) -> list[Survey]:
    """What each node says that can be read."""
    return [view for _, results in answers if (view := _read(results)) is not None]


def _cheapest(markets: Sequence[Market]) -> Market:
    """The least that a node names of each. No tip is no word: from nothing, an eighth more leads nowhere."""
    return Market(
        min(market.base_fee for market in markets),
        min((market.tip for market in markets if market.tip), default=0),
    )


def _read(results: Results) -> Survey | None:
    count, latest, balance, suggested, price = results
    try:
        block = decode_block(latest)
        if block is None:
            return None
        base_fee, counted = block.base_fee or 0, from_count(count)
        return Survey(
            head=block.number,
            time_s=block.time_s,
            count=counted,
            sure=counted,
            balance=from_quantity(balance),
            market=Market(base_fee, _tip(suggested, price, base_fee)),
        )
    except BadAnswer:
        return None


def _tip(suggested: object, price: object, base_fee: int) -> int:
    """What the node suggests; else what its price has above the base fee."""
    if not isinstance(suggested, RpcError):
        return from_quantity(suggested)
    if not isinstance(price, RpcError):
        return max(0, from_quantity(price) - base_fee)
    return TIP_FALLBACK
