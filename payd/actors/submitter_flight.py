"""Signed transactions on their way: sent, sent again, followed, and ended once nothing can change any more.

Each is the same bytes for ever, and lands once or never. Rows are the truth, and every step may be the last
before a crash: the next tick begins with the rows.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog
import trio
from solders.pubkey import Pubkey

from payd.chains.rpc import Rpc, RpcError, Verdict
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import Listed, decode_listing
from payd.chains.solana.asking import listing_call
from payd.chains.solana.binding import reference_of
from payd.chains.solana.fates import Doubts, Told, Word, ask_enough, ask_one
from payd.chains.witnesses import needed
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.errors import OutcomeUnknown, StoreUnavailable
from payd.store.db import Database
from payd.store.payments import find_payment
from payd.store.sightings import sightings_in
from payd.store.submissions import StoredSubmission, end_submission, note_leaving

log = structlog.get_logger("payd.relayer")

Found = Callable[[str], Awaitable[None]]
"""Reads a transaction now, and stores what it paid; see `Watcher.found`."""

# Nodes forget what they could not bring to a leader; some were not there.
RESEND_S: Final = 2.0
# Followed at once, of the oldest and of the newest each; the others' turn is when some of these are over.
OPEN_MAX: Final = 1024
SENDS_AT_ONCE: Final = 32
# Each may tell a payment, which may ask nodes in its turn.
FINDS_AT_ONCE: Final = 32
# Nodes keep statuses of so new transactions at hand; older ones they have to look for.
RECENT_MS: Final = 45_000
# Transactions that name a payment which are read once its own can not land any more.
NAMED_MAX: Final = 20

_TAKEN: Final[frozenset[Verdict]] = frozenset({"ok", "known"})
_WORDS: Final[dict[Told, str]] = {
    "failed": "The transaction failed on the blockchain.",
    "nowhere": "The blockchain did not take the transaction while its blockhash was valid.",
    "forgotten": "No node knows the transaction, and none remembers the time in which it could land.",
}


class Flight:
    """The open submissions of one chain.

    Args:
        db: The realm's store.
        clock: The realm's.
        rpc: The chain's nodes.
        chain: A Solana chain.
        found: Reads what was confirmed.

    Attributes:
        counts: `resends`, `failed` and `lost` (by a fork, after most votes were for it) since the start.
        unconfirmed: Those that are on no chain yet.
        lost: Payments that had succeeded by a transaction which is being sent again.
    """

    def __init__(self, db: Database, clock: Clock, rpc: Rpc, chain: ChainId, found: Found) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._chain = str(chain)
        self._found = found
        self._sent_s: dict[str, float] = {}
        self._confirmed: dict[str, int] = {}
        self._doubts = Doubts(rpc, "landed")
        self._finding: set[str] = set()
        self._sought: set[str] = set()
        self._send_room = trio.CapacityLimiter(SENDS_AT_ONCE)
        self._find_room = trio.CapacityLimiter(FINDS_AT_ONCE)
        self.counts: Counter[str] = Counter()
        self.unconfirmed: tuple[StoredSubmission, ...] = ()
        self.lost: frozenset[str] = frozenset()

    async def work(self, waiting: Sequence[StoredSubmission], nursery: trio.Nursery) -> list[str]:
        """Do what is due for the open ones. Returns the payments whose transactions can not land any more.

        Args:
            waiting: They, oldest first.
            nursery: Where what was confirmed is read; payments are told there, which may take a while.

        Raises:
            NodesDown, BadAnswer: No node tells of them; new ones have been sent all the same.
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored; nothing was sent that is not.
        """
        self._forget(waiting)
        new = [one for one in waiting if not one.left_us and self._is_young(one)]
        await self._send(new)
        if not waiting:
            return []
        old = not all(self._is_young(one) for one in waiting)
        word = await ask_one(self._rpc, [one.tx_id for one in waiting], search_history=old)
        await self._note_lost(self._follow(waiting, word, nursery))
        await self._send([one for one in waiting if self._is_due(one, word)])
        over = [one for one in waiting if word.end_of(one.tx_id, one.valid_until_height) is not None]
        return await self._end(over, nursery) if over else []

    def is_confirmed(self, one: StoredSubmission) -> bool:
        """Whether a block with most votes has it, by what was read last."""
        return one.tx_id in self._confirmed

    def _forget(self, waiting: Sequence[StoredSubmission]) -> None:
        kept = {one.tx_id for one in waiting}
        self._doubts.keep(kept)
        self._sought &= kept
        for memory in (self._sent_s, self._confirmed):
            for tx_id in memory.keys() - kept:
                del memory[tx_id]
        self.unconfirmed = tuple(one for one in waiting if one.tx_id not in self._confirmed)
        self.lost &= {one.payment_id for one in waiting}

    def _is_young(self, one: StoredSubmission) -> bool:
        return self._clock.now_ms() - one.created_at_ms < RECENT_MS

    # To the chain.

    def _is_due(self, one: StoredSubmission, word: Word) -> bool:
        """Whether it is to be sent again: it is on no block with most votes, and may get there.

        What is young may, whatever height the node names that is heard first.
        """
        is_over = word.height > one.valid_until_height and not self._is_young(one)
        if one.tx_id in self._confirmed or is_over:
            return False
        return trio.current_time() - self._sent_s.get(one.tx_id, -RESEND_S) >= RESEND_S

    async def _send(self, submissions: Sequence[StoredSubmission]) -> None:
        """Send to all nodes. What never left is noted as gone before any of them sees it."""
        fresh = [one.seq for one in submissions if not one.left_us]
        if fresh:
            await self._db.write(note_leaving, fresh, self._clock.now_ms())
        async with trio.open_nursery() as nursery:
            for one in submissions:
                nursery.start_soon(self._send_one, one)

    async def _send_one(self, one: StoredSubmission) -> None:
        async with self._send_room:
            is_first = one.tx_id not in self._sent_s
            self._sent_s[one.tx_id] = trio.current_time()
            said = await self._rpc.broadcast(one.raw)
        best = next((sent for sent in said if sent.verdict in _TAKEN), said[0])
        facts = {"tx_id": one.tx_id, "verdict": best.verdict, "words": best.message}
        if not is_first:
            self.counts["resends"] += 1
            log.debug("submitter.sent_again", **facts)
        elif best.verdict in _TAKEN:
            log.info("submitter.sent", **facts)
        else:
            log.warning("submitter.not_taken", **facts)

    # On the chain.

    def _follow(
        self, waiting: Sequence[StoredSubmission], word: Word, nursery: trio.Nursery
    ) -> list[tuple[StoredSubmission, int]]:
        """Note which blocks have them: each is read where it is new, and sent again where it is gone.

        Returns:
            Those that are gone, each with the slot where it was.
        """
        gone = []
        for one in waiting:
            status = word.statuses[one.tx_id]
            slot = None if status is None or status.commitment == "processed" else status.slot
            if slot is None:
                before = self._slot_before(one)
                if before is not None and _is_gone(word, one.tx_id, before):
                    self._confirmed.pop(one.tx_id, None)
                    self._sent_s.pop(one.tx_id, None)
                    gone.append((one, before))
                continue
            if slot == self._confirmed.get(one.tx_id):
                continue
            self._confirmed[one.tx_id] = slot
            self.lost -= {one.payment_id}
            if status is not None and status.err is None:
                self._start_finding(one.tx_id, nursery)
        self.unconfirmed = tuple(one for one in waiting if one.tx_id not in self._confirmed)
        return gone

    def _slot_before(self, one: StoredSubmission) -> int | None:
        """Where it was confirmed, if it was and is not known to be lost.

        The watcher may have seen it there between two of our looks, or before a restart: its payment has
        succeeded by it then.
        """
        if one.tx_id in self._confirmed or one.payment_id in self.lost:
            return self._confirmed.get(one.tx_id)
        payment = self._db.point(find_payment, one.payment_id)
        if payment is None or payment.success is None or payment.success.tx_id != one.tx_id:
            return None
        return max(
            (seen.block_number for seen in self._db.point(sightings_in, self._chain, one.tx_id)), default=0
        )

    def _start_finding(self, tx_id: str, nursery: trio.Nursery) -> None:
        self._finding.add(tx_id)
        nursery.start_soon(self._find, tx_id)

    async def _find(self, tx_id: str) -> None:
        """Have a transaction read; tried again where it could not be stored, or was not read to its end."""
        is_read = False
        try:
            async with self._find_room:
                await self._found(tx_id)
            is_read = True
        except (StoreUnavailable, OutcomeUnknown) as trouble:
            log.debug("submitter.not_stored", tx_id=tx_id, reason=str(trouble))
        finally:
            self._finding.discard(tx_id)
            if not is_read:
                self._confirmed.pop(tx_id, None)
                self._sought.discard(tx_id)

    async def _note_lost(self, gone: Sequence[tuple[StoredSubmission, int]]) -> None:
        """Tell of what a fork took, and that is sent again as long as its blockhash is good.

        Not by one node's word, where others answer; and no fork takes what is settled.
        """
        words = await ask_enough(self._rpc, [one.tx_id for one, _ in gone]) if gone else []
        for one, before in gone:
            payment = self._db.point(find_payment, one.payment_id)
            is_settled = payment is not None and payment.settled is not None
            agreeing = sum(_is_gone(word, one.tx_id, before) for word in words)
            if is_settled or (words and agreeing < needed(self._rpc)):
                continue
            self.counts["lost"] += 1
            if payment is not None and payment.success is not None:
                self.lost |= {one.payment_id}
                log.critical("submitter.lost_after_success", chain=self._chain, payment_id=one.payment_id)
            else:
                log.warning("submitter.lost", chain=self._chain, payment_id=one.payment_id, tx_id=one.tx_id)

    # Ends.

    async def _end(self, over: Sequence[StoredSubmission], nursery: trio.Nursery) -> list[str]:
        """End what nodes agree has ended. Returns the payments of those that came to nothing."""
        words = await ask_enough(self._rpc, [one.tx_id for one in over])
        dead = []
        for one in over:
            age_ms = self._clock.now_ms() - one.created_at_ms
            end = self._doubts.end_of(words, one.tx_id, one.valid_until_height, age_ms)
            if end == "landed":
                await self._land(one, nursery)
            elif end is not None:
                await self._bury(one, end)
                dead.append(one.payment_id)
        return dead

    async def _land(self, one: StoredSubmission, nursery: trio.Nursery) -> None:
        """It is final; and over once what it paid is stored, or could not be after another try."""
        if not self._db.point(sightings_in, self._chain, one.tx_id):
            if one.tx_id in self._finding:
                return
            if one.tx_id not in self._sought:
                self._sought.add(one.tx_id)
                self._start_finding(one.tx_id, nursery)
                return
        await self._db.write(end_submission, one.seq, "landed")
        log.info("submitter.landed", payment_id=one.payment_id, tx_id=one.tx_id)

    async def _bury(self, one: StoredSubmission, end: Told) -> None:
        """It comes to nothing. Another transaction may have paid, to some other account.

        That one is read first: once this has ended, its payment fails, and nobody looks for it any more.
        """
        for named in await self._named(one.payment_id):
            if named.err is None:
                await self._found(named.tx_id)
        await self._db.write(end_submission, one.seq, "dead", _WORDS[end])
        self.counts["failed"] += 1
        log.warning("submitter.dead", payment_id=one.payment_id, tx_id=one.tx_id, reason=_WORDS[end])

    async def _named(self, payment_id: str) -> list[Listed]:
        """The transactions that name the payment. Raises NodesDown, BadAnswer."""
        reference = Pubkey(reference_of(payment_id))
        [result] = await self._rpc.batch([listing_call(reference, limit=NAMED_MAX)])
        if isinstance(result, RpcError):
            raise BadAnswer(f"the node cannot answer: {result}")
        return decode_listing(result)


def _is_gone(word: Word, tx_id: str, before: int) -> bool:
    """Whether a node has the slot where a transaction was, and not it, there or surely elsewhere.

    One that is behind has it there, and does not know yet how sure that is.
    """
    status = word.statuses[tx_id]
    is_there = status is not None and (status.slot == before or status.commitment != "processed")
    return word.first <= before <= word.at and not is_there
