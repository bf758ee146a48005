"""What became of a commitment that no transfer shows: whether anything of ours can still land.

An unknown outcome is never failure. A payment ends unpaid when the chain refuses its signature, which never
left payd, or when final blocks, read by the watcher and agreed on by the nodes, leave no way for its transfer
to come.

A transaction that a wallet told of may leave no such proof: whoever sent it for a smart wallet may send it
again under another nonce, and a buyer may never use the nonce of one that every node forgot. Nobody can wait
for it for ever, and it has not failed. Such a payment expires `GIVEN_UP_S` after its window, by the time of
final blocks, when no node that answers knows the transaction. What was paid in time was read long before, and
money that comes yet is recorded as late. So does one whose transaction is final, and brought something that
does not pay: less than was asked for, or a sum that other payments claim as well.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final, Literal

import structlog

from payd.chains.evm.abi import authorization_state_call, decode_bool
from payd.chains.evm.answers import decode_block, decode_logs, decode_receipt, decode_transaction
from payd.chains.evm.asking import decoded, eth_call
from payd.chains.evm.codec import from_count, to_data, to_quantity, word_of_address
from payd.chains.evm.evidence import Evidence, depth_call, has_depth, watched_for
from payd.chains.evm.proof import paid_by
from payd.chains.evm.terms import Terms
from payd.chains.evm.track import Told, Track
from payd.chains.following import never_left
from payd.chains.rpc import Call, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.core.caip import parse_account
from payd.core.errors import ChainUnavailable
from payd.core.failure import (
    BROADCAST_FAILED,
    DECLINED,
    NOT_BROUGHT,
    PAID_NOTHING,
    REPLACED,
    REVERTED,
    TAKEN_BACK,
    TOO_LATE,
)
from payd.core.payment import Payment, PaymentFailed, WindowClosed
from payd.store.chain_cursors import Cursor
from payd.store.relays import Job

log = structlog.get_logger("payd.chains")

# keccak256 of `AuthorizationCanceled(address,bytes32)`.
AUTHORIZATION_CANCELED: Final = bytes.fromhex(
    "1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81"
)
# Blocks at once that are looked through for a cancelled authorization, and how often. Some nodes allow 500.
LOGS_STEP: Final = 10_000
RANGES_MAX: Final = 64
# Blocks do not come as regularly as their average.
BLOCKS_ROOM: Final = 2
BLOCKS_MORE: Final = 100
# A node's clock and the chain's are not one.
SKEW_S: Final = 600
# Nodes forget what waits in vain within hours, and bundlers sooner. Half as long as late money is looked for.
GIVEN_UP_S: Final = 12 * 3600

End = PaymentFailed | WindowClosed


class Endings:
    """The endings of commitments on one chain.

    Args:
        terms: What the operator set.
        evidence: Its nodes.
    """

    def __init__(self, terms: Terms, evidence: Evidence) -> None:
        self._terms = terms
        self._evidence = evidence
        self._step = LOGS_STEP

    async def end_of(
        self, payment: Payment, track: Track, job: Job | None, read: Cursor | None, is_recorded: bool = False
    ) -> End | None:
        """How a payment ends of whose transfer the chain showed nothing; None while it may still come.

        Args:
            payment: A processing one.
            track: Its notes.
            job: What the relayer owes it.
            read: Up to where the watcher has read final blocks. No transfer that pays is in them.
            is_recorded: Whether the watcher has stored what the told transaction brought, as what it is.

        Raises:
            ChainUnavailable: Too few nodes answer.
        """
        stayed = never_left(job)
        if stayed is not None and stayed.reason != NOT_BROUGHT + TOO_LATE:
            return stayed
        if read is None:
            return None
        if track.told is not None:
            return await self._end_of_told(payment, track, track.told, read, is_recorded)
        if track.valid_until_s is None:
            return None
        is_out = job is not None and job.state in ("queued", "sent")
        if is_out and read.time_s < track.valid_until_s:
            return None
        end = await self._end_of_signed(payment, track, track.valid_until_s, read)
        return stayed if isinstance(end, WindowClosed) and stayed is not None else end

    async def _end_of_signed(
        self, payment: Payment, track: Track, valid_until_s: int, read: Cursor
    ) -> End | None:
        """Whether the token still takes what was signed.

        Not used now means not used in any block below; and no block above what is final can be older than it.
        """
        assert track.token is not None
        assert track.nonce is not None
        state = eth_call(track.token, authorization_state_call(_authorizer(payment), track.nonce))
        said = await self._evidence.views(
            [*self._final_calls(read), state],
            lambda results: decoded(results[2], decode_bool) if self._is_final(read, results) else None,
        )
        used = self._evidence.agreed(said)
        if used is None:
            return None
        if not used:
            return WindowClosed() if read.time_s >= valid_until_s else None
        if await self._is_cancelled(payment, track, read):
            return PaymentFailed(TAKEN_BACK, DECLINED)
        # Used for something else, such as another amount that was asked for before: that is not this payment.
        return WindowClosed() if read.time_s >= valid_until_s + GIVEN_UP_S else None

    async def _is_cancelled(self, payment: Payment, track: Track, read: Cursor) -> bool:
        """Whether the nodes agree on an event by which the buyer took back what was signed."""
        first, last = self._first_block(payment, read), read.number
        step, self._step = self._step, min(LOGS_STEP, 2 * self._step)
        for _ in range(RANGES_MAX):
            if last < first:
                return False
            start = max(first, last - step + 1)
            call = _cancelled_logs(_authorizer(payment), track, start, last)
            try:
                said = await self._evidence.views([call], lambda results: _seen_in(results[0]))
            except ChainUnavailable:
                # Some say nothing of a range that they are too slow for: the next look begins with fewer.
                self._step = max(1, step // 2)
                raise
            found = self._evidence.agreed(said)
            if found == "some":
                return True
            if found == "none":
                last = start - 1
            elif "too_wide" in said and step > 1:
                step //= 2
            else:
                return False
        return False

    async def _end_of_told(
        self, payment: Payment, track: Track, told: Told, read: Cursor, is_recorded: bool
    ) -> End | None:
        """Whether the transaction that the buyer sent has come to nothing."""
        calls = self._told_calls(told, read)
        if told.nonce is not None:
            calls.append(("eth_getTransactionCount", told.sender, to_quantity(read.number)))
        ends = await self._evidence.views(
            calls,
            lambda results: (
                self._end_by(track, told, read, results) if self._is_final(read, results) else None
            ),
        )
        words = self._evidence.agreed(ends)
        if words == REPLACED and not await self._evidence.remember(self._first_block(payment, read)):
            words = None  # who has pruned what landed says the same
        if words is not None:
            return PaymentFailed(words, DECLINED if words == REPLACED else BROADCAST_FAILED)
        return WindowClosed() if await self._is_given_up(payment, told, read, is_recorded) else None

    async def _is_given_up(self, payment: Payment, told: Told, read: Cursor, is_recorded: bool) -> bool:
        """Whether it is long ago that a transaction was of use, and all nodes have forgotten it, or show it
        where the watcher found that it does not pay.

        One that only lags says too whether it waits for a block: none is left out.
        """
        assert payment.processing is not None
        since_ms = max(payment.expires_at_ms, payment.processing.processing_at_ms)
        if read.time_s < since_ms // 1000 + GIVEN_UP_S:
            return False
        asked = await self._evidence.ask(self._told_calls(told, read), everyone=True)
        answers = [results for _, results in asked]
        if not all(
            results[2:] == [None, None] or (is_recorded and _is_mined_in(read, results[2]))
            for results in answers
        ):
            return False
        return sum(self._is_final(read, results) for results in answers) >= self._evidence.witnesses

    def _end_by(self, track: Track, told: Told, read: Cursor, results: Results) -> str | None:
        """What a node shows of it, in words; None while it may still pay."""
        if isinstance(results[2], RpcError) or isinstance(results[3], RpcError):
            return None
        try:
            receipt, transaction = decode_receipt(results[2]), decode_transaction(results[3])
            if receipt is not None and transaction is not None:
                if receipt.block_number > read.number:
                    return None
                if receipt.status == 0:
                    return REVERTED
                watched = watched_for(track.asset, track.recipient)
                known = {(binding, track.asset) for binding in track.bindings}
                paid = paid_by(self._terms.chain, transaction, receipt, watched, known)
                has_paid = any(one.binding is not None or told.assigned for one in paid)
                return None if has_paid else PAID_NOTHING
            if receipt is not None or (transaction is not None and transaction.block_hash is not None):
                return None
            if told.nonce is None or isinstance(results[4], RpcError):
                return None
            return REPLACED if from_count(results[4], "the nonce") > told.nonce else None
        except BadAnswer as bad:
            log.debug("chain.bad_answer", chain=str(self._terms.chain), why=str(bad))
            return None

    def _first_block(self, payment: Payment, read: Cursor) -> int:
        """The number of a block that was there before the buyer committed."""
        assert payment.processing is not None
        asked_s = payment.processing.processing_at_ms // 1000 - SKEW_S
        blocks = max(0, read.time_s - asked_s) * 1000 * BLOCKS_ROOM // self._terms.block_ms + BLOCKS_MORE
        return max(0, read.number - blocks)

    def _final_calls(self, read: Cursor) -> list[Call]:
        return [depth_call(self._terms.final), ("eth_getBlockByNumber", to_quantity(read.number), False)]

    def _told_calls(self, told: Told, read: Cursor) -> list[Call]:
        tx_hash = told.tx_hash
        own: list[Call] = [("eth_getTransactionReceipt", tx_hash), ("eth_getTransactionByHash", tx_hash)]
        return [*self._final_calls(read), *own]

    def _is_final(self, read: Cursor, results: Results) -> bool:
        """Whether a node has the same block where the watcher has read to, and has it as final."""
        if any(isinstance(result, RpcError) for result in results[:2]):
            return False
        try:
            block = decode_block(results[1])
            same = block is not None and (block.hash, block.time_s) == (read.hash, read.time_s)
            return same and has_depth(read.number, self._terms.final, results[0])
        except BadAnswer:
            return False


def _is_mined_in(read: Cursor, result: object) -> bool:
    """Whether a node shows a receipt in the blocks that were read."""
    try:
        receipt = decode_receipt(result)
    except BadAnswer:
        return False
    return receipt is not None and receipt.block_number <= read.number


def _authorizer(payment: Payment) -> str:
    """Whose signature it was."""
    assert payment.processing is not None
    assert payment.processing.buyer is not None
    return parse_account(payment.processing.buyer).address.lower()


def _cancelled_logs(authorizer: str, track: Track, first: int, last: int) -> Call:
    assert track.nonce is not None
    topics = [AUTHORIZATION_CANCELED, word_of_address(authorizer), track.nonce]
    wanted = {
        "address": track.token,
        "topics": [to_data(topic) for topic in topics],
        "fromBlock": to_quantity(first),
        "toBlock": to_quantity(last),
    }
    return ("eth_getLogs", wanted)


def _seen_in(result: object) -> Literal["some", "none", "too_wide"] | None:
    """Whether a node shows an event in blocks; None where it does not say.

    Who refuses in words that nobody knows is asked for fewer, as who reads the chain does.
    """
    if isinstance(result, RpcError):
        return None if result.kind == "cannot" else "too_wide"
    try:
        return "some" if any(not one.removed for one in decode_logs(result)) else "none"
    except BadAnswer:
        return None
