"""What several nodes show of a transfer, each by its own data; a proof takes two, where there are two.

A node's receipt alone proves nothing. The transfer must follow from the node's own transaction and receipt,
be in the block that the node has at this height, and lie deep enough under the node's own head.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import structlog

from payd.chains.asking import answered
from payd.chains.defaults import Depth
from payd.chains.evm.answers import decode_block, decode_receipt, decode_transaction
from payd.chains.evm.codec import from_count, from_list, from_object, to_quantity
from payd.chains.evm.history import remembers
from payd.chains.evm.proof import Watched, paid_by
from payd.chains.evm.track import Track
from payd.chains.following import is_account
from payd.chains.rpc import Call, NodesDown, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.unread import Unread
from payd.chains.witnesses import Proof, View, Witnesses
from payd.core.caip import AccountId, parse_account, parse_asset
from payd.store.sightings import Sighting

log = structlog.get_logger("payd.chains")


class Evidence(Witnesses):
    """The evidence on one chain."""

    async def prove(self, sighting: Sighting, track: Track, depth: Depth, payer: str | None = None) -> Proof:
        """Whether a stored transfer is what a payment was committed to, and lies this deep.

        Where the nodes that are asked first do not agree, all are; then enough of them must.

        Args:
            sighting: The transfer.
            track: The notes of the commitment.
            depth: How deep.
            payer: CAIP-10 of who must have paid, or have sent the transaction in which a contract did; None:
                whoever.

        Raises:
            ChainUnavailable: Too few nodes answer.
        """
        calls = _calls(sighting, depth)
        return await self.weigh(
            sighting.tx_id, calls, lambda results: self._view(sighting, track, depth, payer, results)
        )

    async def deny(self, sighting: Sighting, final: Depth) -> bool:
        """Whether enough nodes have the block of a stored transfer as final, and no such transfer in it; or
        another block in its place, and the transaction elsewhere or nowhere.

        Then whoever showed it was wrong: of many blocks that are read at once a node names those in between
        alone, and no reorg is found where it made one up.
        """
        answers = await self._rpc.ask_all(_calls(sighting, final))
        return sum(self._denies(sighting, final, results) for _, results in answers) >= self.witnesses

    async def remember(self, first: int) -> bool:
        """Whether enough nodes still have the logs of a block and of those that follow it."""
        count = 0
        for node in self._rpc.nodes:
            if node.is_healthy and count < self.witnesses:
                try:
                    count += await remembers(self._rpc, node, first)
                except (NodesDown, Unread, BadAnswer) as trouble:
                    log.debug("chain.not_remembered", node=node.name, block=first, why=str(trouble))
        return count >= self.witnesses

    def _denies(self, sighting: Sighting, final: Depth, results: Results) -> bool:
        try:
            block = decode_block(answered(results[2]))
            if block is None or not _is_deep(sighting, final, results):
                return False
            is_other = block.hash != sighting.block_hash
            transaction = decode_transaction(answered(results[0]))
            receipt = decode_receipt(answered(results[1]))
            if (transaction is None) != (receipt is None):
                return False
            if transaction is None or receipt is None or receipt.block_hash != sighting.block_hash:
                # Behind one address may be several nodes: one that lags, or is on a fork, knows no better.
                return is_other or not _lists(results[2], sighting.tx_id)
            if is_other:
                return False
            watched = watched_for(sighting.asset, sighting.recipient)
            paid = paid_by(self._chain, transaction, receipt, watched, set())
        except BadAnswer:
            return False
        return all((one.log_index, one.value) != (sighting.log_index, sighting.value) for one in paid)

    def _view(
        self, sighting: Sighting, track: Track, depth: Depth, payer: str | None, results: Results
    ) -> View:
        try:
            shows = self._shows(sighting, track, payer, results)
            return View(shows, _is_deep(sighting, depth, results))
        except BadAnswer as bad:
            log.debug("chain.bad_answer", chain=str(self._chain), why=str(bad))
            return View(False, False)

    def _shows(self, sighting: Sighting, track: Track, payer: str | None, results: Results) -> bool:
        """Whether the node itself shows the transfer as it was committed, where it is stored, and by whom."""
        transaction = decode_transaction(answered(results[0]))
        receipt = decode_receipt(answered(results[1]))
        block = decode_block(answered(results[2]))
        if transaction is None or receipt is None or block is None:
            return False
        if not (receipt.block_hash == block.hash == sighting.block_hash):
            return False
        if receipt.block_number != sighting.block_number or receipt.tx_hash != sighting.tx_id:
            return False
        sent_by = str(AccountId(self._chain, transaction.sender))
        watched = watched_for(track.asset, track.recipient)
        known = {(binding, track.asset) for binding in track.bindings}
        for one in paid_by(self._chain, transaction, receipt, watched, known, sighting.log_index):
            same = (one.asset, one.recipient, str(one.value)) == (track.asset, track.recipient, track.value)
            is_bound = one.binding in track.bindings or sighting.assigned
            is_by = payer is None or is_account(payer, one.sender) or is_account(payer, sent_by)
            if same and one.log_index == sighting.log_index and is_bound and is_by:
                return True
        return False


def watched_for(asset: str, recipient: str) -> Watched:
    """One asset and one recipient, both canonical."""
    parsed, destinations = parse_asset(asset), {parse_account(recipient).address}
    if parsed.namespace == "erc20":
        return Watched(tokens={parsed.reference}, destinations=destinations)
    return Watched(tokens=set(), destinations=destinations, native=asset)


def depth_call(depth: Depth) -> Call:
    """What a node is asked for how deep it has a block."""
    if isinstance(depth, int):
        return ("eth_blockNumber",)
    return ("eth_getBlockByNumber", depth, False)


def has_come_to(number: int, result: object) -> bool:
    """Whether a node has this block, by its answer to `eth_blockNumber`; not if it gives none."""
    try:
        return has_depth(number, 1, result)
    except BadAnswer:
        return False


def has_depth(number: int, depth: Depth, result: object) -> bool:
    """Whether a block lies so deep, by a node's answer to `depth_call`.

    Raises:
        BadAnswer: It is none.
    """
    if isinstance(depth, int):
        return from_count(answered(result), "the head") >= number + depth - 1
    block = decode_block(answered(result))
    return block is not None and block.number >= number


def _calls(sighting: Sighting, depth: Depth) -> list[Call]:
    return [
        ("eth_getTransactionByHash", sighting.tx_id),
        ("eth_getTransactionReceipt", sighting.tx_id),
        ("eth_getBlockByNumber", to_quantity(sighting.block_number), False),
        depth_call(depth),
    ]


def _lists(block: object, tx_id: str) -> bool:
    """Whether a block, as a node gave it without its transactions, has this one."""
    return any(str(one).lower() == tx_id for one in from_list(from_object(block).get("transactions")))


def _is_deep(sighting: Sighting, depth: Depth, results: Results) -> bool:
    # A node without the tag shows the transfer all the same.
    return not isinstance(results[3], RpcError) and has_depth(sighting.block_number, depth, results[3])
