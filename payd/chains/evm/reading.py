"""Reading blocks of an EVM chain: every transfer to watched destinations, or the admission that it is unread.

All of one piece comes from one node. Nodes lag, and a provider's URL is many nodes: an empty list of logs is
believed only together with the block that it was asked for.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence, Set
from typing import Any, Final, NamedTuple

import msgspec

from payd.chains.evm.answers import (
    Block,
    Log,
    Receipt,
    Transaction,
    decode_block,
    decode_logs,
    decode_receipt,
    decode_transaction,
)
from payd.chains.evm.codec import from_list, from_object, to_data, to_quantity, word_of_address
from payd.chains.evm.events import TRANSFER, decode_transfer
from payd.chains.evm.proof import Watched, candidate_bindings, paid_by
from payd.chains.rpc import Call, Node, Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.unread import Contradicted, Unread, good
from payd.core.caip import ChainId
from payd.store.sightings import Seen

# Destinations in one filter; providers take more than a few hundred, but not any number.
TOPICS_AT_ONCE: Final = 500

Known = Callable[[Sequence[bytes]], Awaitable[Set[tuple[bytes, str]]]]
"""Those of the bindings that were handed out, each with the canonical asset that it was handed out for."""


class TooWide(Exception):
    """The node gives no logs of so many blocks at once."""


class Tips(NamedTuple):
    """What a node says of its chain: the newest block, the one at the cursor, and the last that is final.

    `at_cursor` is None where it has none; `final` is None too where it does not know.
    """

    head: Block
    at_cursor: Block | None
    final: Block | None


class Piece(msgspec.Struct, frozen=True):
    """Blocks that were read, and what they paid. Of a long range, `blocks` has only the last one."""

    blocks: tuple[Block, ...]
    transfers: tuple[Seen, ...]

    @property
    def last(self) -> Block:
        """Up to where it goes."""
        return self.blocks[-1]


class _Candidate(NamedTuple):
    """A transaction that paid a watched destination, by its logs or by its value, and its block."""

    tx_id: str
    block_hash: str
    block_number: int
    logs: tuple[Log, ...]


class Reader:
    """Reads one chain.

    Args:
        rpc: Its nodes.
        chain: Its id.
        known: Looks up bindings.

    Attributes:
        skipped: Transactions that no node can tell of and that are read past; see `Unread.tx_id`.
    """

    def __init__(self, rpc: Rpc, chain: ChainId, known: Known) -> None:
        self._rpc = rpc
        self._chain = chain
        self._known = known
        self.skipped: set[str] = set()

    async def tips(self, node: Node, cursor: int | None, final: int | str) -> Tips:
        """One POST.

        Args:
            node: Asked.
            cursor: The number of the block up to which was read.
            final: A number, or the tag of the last final block.
        """
        calls: list[Call] = [("eth_getBlockByNumber", "latest", False), _header(final)]
        if cursor is not None:
            calls.append(_header(cursor))
        head, last_final, *at_cursor = await self._rpc.batch(calls, node=node)
        newest = _block(head, "newest")
        settled = None if isinstance(last_final, RpcError) else decode_block(last_final)
        if settled is not None and settled.number > newest.number:
            settled = None
        if cursor is None or (cursor > newest.number and isinstance(at_cursor[0], RpcError)):
            # Some nodes refuse to speak of a block that they do not have yet.
            return Tips(newest, None, settled)
        return Tips(newest, decode_block(good(at_cursor[0])), settled)

    async def headers(self, node: Node, numbers: Sequence[int]) -> list[Block | None]:
        """The blocks of these numbers, without their transactions; None where the node has none."""
        results = await self._rpc.batch([_header(number) for number in numbers], node=node)
        return [decode_block(good(result)) for result in results]

    async def blocks(self, node: Node, watched: Watched, after: tuple[int, str], head: Block) -> Piece:
        """Read every block after that one up to the head, each by its hash: no other can answer for it.

        Args:
            node: Asked.
            watched: What is looked for.
            after: Number and hash of the block that was read last; a few below the head.
            head: As the node named it.

        Raises:
            Unread, BadAnswer, NodesDown: Nothing was read.
        """
        full = watched.native is not None and bool(watched.destinations)
        calls = [_header(number, full) for number in range(after[0] + 1, head.number)]
        if full:
            calls.append(("eth_getBlockByHash", head.hash, True))
        rows = [good(row) for row in await self._rpc.batch(calls, node=node)]
        blocks = [_block(row, "next") for row in rows]
        if not full:
            blocks.append(head)
        _check_numbers(blocks, range(after[0] + 1, head.number + 1))
        _check_row(after[1], blocks)
        logs = await self._logs(node, watched, [{"blockHash": block.hash} for block in blocks])
        paid = [one for row, block in zip(rows, blocks, strict=False) for one in _payers(row, block, watched)]
        return Piece(tuple(blocks), await self._transfers(node, watched, logs, paid, blocks))

    async def range(
        self, node: Node, watched: Watched, after: tuple[int, str], to: int, last: Block | None = None
    ) -> Piece:
        """Read many blocks at once, far enough below the head for no reorg to be about.

        The last one's header is asked for in the POST that asks for the logs.

        Args:
            node: Asked.
            watched: What is looked for.
            after: Number and hash of the block that was read last.
            to: The number of the last block.
            last: That block, if who gives the logs must have it: a machine that is behind leaves out what it
                does not have, and says nothing of it.

        Raises:
            TooWide: Ask for fewer.
            Unread, BadAnswer, NodesDown: Nothing was read.
        """
        full = watched.native is not None and bool(watched.destinations)
        first = after[0] + 1
        numbers = range(first, to + 1) if full else sorted({first, to})
        filters = [{"fromBlock": to_quantity(first), "toBlock": to_quantity(to)}]
        calls = [_header(number, full) for number in numbers]
        known = [] if last is None else _log_calls(watched, [{"blockHash": last.hash}])[:1]
        asked = [*known, *_log_calls(watched, filters), *calls]
        results = await self._rpc.batch(asked, node=node)
        for _ in known:
            good(results.pop(0))
        found = results[: len(results) - len(calls)]
        if to > first and any(isinstance(one, RpcError) and one.kind != "cannot" for one in found):
            raise TooWide
        logs = _read_logs(found, watched)
        rows = [good(row) for row in results[len(found) :]]
        blocks = [_block(row, "next") for row in rows]
        _check_numbers(blocks, numbers)
        _check_row(after[1], blocks if full else blocks[:1])
        if any(not first <= log.block_number <= to for log in logs):
            raise Unread("the node gave logs of other blocks")
        paid = [one for row, block in zip(rows, blocks, strict=True) for one in _payers(row, block, watched)]
        transfers = await self._transfers(node, watched, logs, paid, blocks)
        return Piece((blocks[-1],), transfers)

    async def gives(self, node: Node, watched: Watched, number: int) -> bool:
        """Whether a node gives the logs of a block, or refuses to, as one that has pruned them may.

        Args:
            node: Asked.
            watched: What is looked for; tokens and destinations.
            number: Of the block.

        Raises:
            NodesDown: It does not answer.
        """
        only = {"fromBlock": to_quantity(number), "toBlock": to_quantity(number)}
        [said] = await self._rpc.batch(_log_calls(watched, [only])[:1], node=node)
        return not isinstance(said, RpcError)

    async def transaction(
        self, node: Node, tx_id: str
    ) -> tuple[Transaction | None, Receipt | None, Block | None]:
        """A transaction, its receipt, and the block that the node has at the receipt's number."""
        sent, said = await self._rpc.batch(
            [("eth_getTransactionByHash", tx_id), ("eth_getTransactionReceipt", tx_id)], node=node
        )
        transaction, receipt = decode_transaction(good(sent)), decode_receipt(good(said))
        if receipt is None:
            return transaction, None, None
        [block] = await self.headers(node, [receipt.block_number])
        return transaction, receipt, block

    async def seen(
        self, transaction: Transaction, receipt: Receipt, block: Block, watched: Watched
    ) -> list[Seen]:
        """What a mined transaction paid, and for what."""
        bindings = candidate_bindings(self._chain, transaction, receipt, watched)
        known = await self._known(bindings) if bindings else set()
        return [
            Seen(**msgspec.structs.asdict(one), block_time_s=block.time_s)
            for one in paid_by(self._chain, transaction, receipt, watched, known)
        ]

    async def _logs(self, node: Node, watched: Watched, filters: Sequence[dict[str, str]]) -> list[Log]:
        """The transfers by the logs of blocks, each asked for by its hash: an unknown one is an error."""
        calls = _log_calls(watched, filters)
        logs = _read_logs(await self._rpc.batch(calls, node=node), watched)
        hashes = {one["blockHash"] for one in filters}
        if any(log.block_hash not in hashes for log in logs):
            raise Unread("the node gave logs of other blocks")
        return logs

    async def _transfers(
        self,
        node: Node,
        watched: Watched,
        logs: Sequence[Log],
        paid: Sequence[_Candidate],
        blocks: Sequence[Block],
    ) -> tuple[Seen, ...]:
        candidates = [one for one in _candidates(logs, paid) if one.tx_id not in self.skipped]
        if not candidates:
            return ()
        times = {block.number: block for block in blocks}
        missing = sorted({one.block_number for one in candidates} - times.keys())
        calls: list[Call] = [
            call
            for one in candidates
            for call in (("eth_getTransactionByHash", one.tx_id), ("eth_getTransactionReceipt", one.tx_id))
        ]
        results = await self._rpc.batch([*calls, *map(_header, missing)], node=node)
        for number, row in zip(missing, results[len(calls) :], strict=True):
            times[number] = _block(good(row), "other")
        found: list[Seen] = []
        for place, one in enumerate(candidates):
            block = times[one.block_number]
            if block.hash != one.block_hash:
                raise Unread("the chain has turned while it was read")
            transaction, receipt = _evidence(one, *results[2 * place : 2 * place + 2])
            if not receipt.block_number == block.number == one.block_number:
                raise Unread(f"the node numbers the block of {one.tx_id} in more than one way", one.tx_id)
            found += await self.seen(transaction, receipt, block, watched)
        return tuple(found)


def _evidence(one: _Candidate, sent: object, said: object) -> tuple[Transaction, Receipt]:
    """A candidate's transaction and receipt, where they bear out what made it one.

    Raises:
        Unread: They do not, or cannot be read.
    """
    try:
        transaction, receipt = decode_transaction(good(sent)), decode_receipt(good(said))
    except (BadAnswer, Unread) as error:
        raise Unread(f"{one.tx_id}: {error}", one.tx_id) from error
    if transaction is None or receipt is None:
        raise Unread(f"the node does not have {one.tx_id}, of which it told", one.tx_id)
    if {transaction.hash, receipt.tx_hash} != {one.tx_id}:
        raise Unread(f"the node gave another transaction for {one.tx_id}", one.tx_id)
    if {transaction.block_hash, receipt.block_hash} != {one.block_hash}:
        raise Unread(f"the node has {one.tx_id} in more than one block", one.tx_id)
    told = {(log.log_index, log.address, log.topics, log.data) for log in one.logs}
    if not told <= {(log.log_index, log.address, log.topics, log.data) for log in receipt.logs}:
        raise Unread(f"the receipt of {one.tx_id} lacks logs of which the node told", one.tx_id)
    if one.logs and receipt.status != 1:
        raise Unread(f"{one.tx_id} has logs, and was reverted", one.tx_id)
    return transaction, receipt


def _candidates(logs: Sequence[Log], paid: Sequence[_Candidate]) -> list[_Candidate]:
    """One for each transaction, in the order of the chain."""
    by_tx: dict[str, list[Log]] = {}
    for log in logs:
        by_tx.setdefault(log.tx_hash, []).append(log)
    found = [
        _Candidate(tx_id, some[0].block_hash, some[0].block_number, tuple(some))
        for tx_id, some in by_tx.items()
    ]
    found += [one for one in paid if one.tx_id not in by_tx]
    return sorted(found, key=lambda one: one.block_number)


def _payers(row: object, block: Block, watched: Watched) -> Iterator[_Candidate]:
    """The transactions of a whole block that bring coins to a destination.

    The others are not looked into: some chains have ones that are like no other's.
    """
    if watched.native is None:
        return
    for one in from_list(from_object(row).get("transactions")):
        sent = from_object(one, "transaction")
        to = sent.get("to")
        if isinstance(to, str) and to.lower() in watched.destinations:
            transaction = decode_transaction(sent)
            if transaction is not None and transaction.value > 0:
                yield _Candidate(transaction.hash, block.hash, block.number, ())


def _log_calls(watched: Watched, filters: Sequence[dict[str, str]]) -> list[Call]:
    """Transfers of watched tokens to watched destinations, under each of the filters."""
    tokens, topics = sorted(watched.tokens), [to_data(word_of_address(to)) for to in watched.destinations]
    if not tokens:
        return []
    topics.sort()
    return [
        (
            "eth_getLogs",
            {
                **one,
                "address": tokens,
                "topics": [to_data(TRANSFER), None, topics[start : start + TOPICS_AT_ONCE]],
            },
        )
        for one in filters
        for start in range(0, len(topics), TOPICS_AT_ONCE)
    ]


def _read_logs(results: Sequence[Any], watched: Watched) -> list[Log]:
    """Those that move something of ours; a filter is a wish."""
    found: list[Log] = []
    for log in (log for result in results for log in decode_logs(good(result))):
        transfer = decode_transfer(log)
        if transfer is None or log.removed or transfer.token not in watched.tokens:
            continue
        if transfer.recipient in watched.destinations and transfer.value > 0:
            found.append(log)
    return found


def _check_numbers(blocks: Sequence[Block], numbers: Sequence[int]) -> None:
    if [block.number for block in blocks] != list(numbers):
        raise Unread("the node gave blocks of other numbers")


def _check_row(after_hash: str, blocks: Sequence[Block]) -> None:
    """Blocks that follow on each other, the first one on what was read before."""
    for block in blocks:
        if block.parent_hash != after_hash:
            raise Contradicted("the chain has turned since it was read")
        after_hash = block.hash


def _header(number: int | str, full: bool = False) -> Call:
    return ("eth_getBlockByNumber", to_quantity(number) if isinstance(number, int) else number, full)


def _block(row: object, which: str) -> Block:
    block = decode_block(good(row))
    if block is None:
        raise Unread(f"the node does not have the {which} block")
    return block
