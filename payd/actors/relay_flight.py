"""What the relayer has sent: followed, sent again and paid better, until the chain has used its nonce.

What no node takes, or what came too late, is not left to hold up all after it: its nonce is used for nothing.
Rows are the truth, and every step may be the last before a crash: the next tick begins with the rows.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import structlog

from payd.actors.relay_alarms import Alarms
from payd.actors.relay_broadcast import Broadcaster, Heard
from payd.actors.relay_purse import PAYMENT_GAS, Purse
from payd.chains.evm.answers import Receipt
from payd.chains.evm.fate import Sought, Word, agreed, cost_of, fates, likeliest
from payd.chains.evm.legs import all_are_used, legs_of
from payd.chains.evm.raw import called_by
from payd.chains.evm.signer import Signer
from payd.chains.evm.survey import Survey
from payd.chains.rpc import Rpc, Verdict
from payd.chains.witnesses import WITNESSES
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.gas import Fees, Market, first_fees, raised_fees
from payd.core.relay import COST_MAX, REVERTS_MAX, RelayLimits, retry_delay_ms
from payd.store.db import Database
from payd.store.relay_transactions import (
    REVERTED,
    Attempt,
    Mined,
    OpenTransaction,
    add_attempt,
    add_filler,
    count_reverts,
    note_lost,
    note_mined,
)
from payd.store.relays import Job, job_of_seq

log = structlog.get_logger("payd.relayer")

# Nodes that do not agree on what became of a nonce do a moment later; one that hides things never does.
DOUBT_MS: Final = 15_000
# What is not mined after so long, a person should look at.
STUCK_MS: Final = 5 * 60_000
# What every node refuses for so long, and no fee mends, none will take; until then it may have been trouble
# of the nodes. Buyers who would wait behind it are told sooner.
REFUSED_MS: Final = 3 * 60_000
REFUSED_STUCK_MS: Final = 30_000
# The chain's next nonce is none of ours: somebody used the key and a reorg took that back, or nodes lag.
GAP_MS: Final = 60_000
# Each form costs a call when it is looked for. An eighth more each time: a hundredfold of the first fee.
ATTEMPTS_MAX: Final = 40
# The pool has a form that pays about as much, or blocks ask more: a higher fee helps, and nothing else does.
WANTS_MORE: Final[frozenset[Verdict]] = frozenset({"underpriced", "fee_low"})

BROUGHT: Final = "Somebody else brought it to the chain, or the buyer cancelled it."
UNTAKEN: Final = "No node took it."


class Flight:
    """The open transactions of one key on one chain.

    Args:
        db: The realm's store.
        clock: The realm's.
        rpc: The chain's nodes.
        chain: An `eip155` chain.
        signer: The key.
        limits: What may be spent, and the pace.
        purse: What is left of it.
        alarms: What a person should look at.
        broadcaster: Sends.

    Attributes:
        counts: `bumps`, `reverts`, `lost` and `fillers` since the start.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        rpc: Rpc,
        chain: ChainId,
        signer: Signer,
        limits: RelayLimits,
        purse: Purse,
        alarms: Alarms,
        broadcaster: Broadcaster,
    ) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._chain = str(chain)
        self._chain_id = int(chain.reference)
        self._signer = signer
        self._limits = limits
        self._purse = purse
        self._alarms = alarms
        self._broadcaster = broadcaster
        self._doubts_ms: dict[int, int] = {}
        self._gap_since_ms: int | None = None
        self._refused: tuple[int, int] | None = None  # The number of the first, and since when.
        self.counts: Counter[str] = Counter()

    # What became of them.

    async def settle(self, transactions: Sequence[OpenTransaction], count: int) -> bool:
        """Note what became of those whose nonces the chain has counted. Returns whether any is over.

        Raises:
            NodesDown: No node tells.
        """
        counted = [one for one in transactions if one.nonce < count]
        self._doubts_ms = {one.seq: self._doubts_ms[one.seq] for one in counted if one.seq in self._doubts_ms}
        if not counted:
            return False
        words = await self._ask(counted, WITNESSES)
        ended = [await self._end(one, said) for one, said in zip(counted, words, strict=True)]
        return any(ended)

    async def _ask(
        self, transactions: Sequence[OpenTransaction], at_most: int | None
    ) -> list[tuple[Word, ...]]:
        sought = [Sought(one.nonce, tuple(form.hash for form in one.attempts)) for one in transactions]
        return await fates(self._rpc, self._signer.address, sought, at_most=at_most)

    async def _end(self, transaction: OpenTransaction, words: Sequence[Word]) -> bool:
        """Believe nodes that agree on a receipt; of anything else, ask all of them again after a while."""
        word = agreed(words)
        if word == "behind":
            return False
        if not isinstance(word, Receipt):
            now_ms = self._clock.now_ms()
            since_ms = self._doubts_ms[transaction.seq] = _since(self._doubts_ms.get(transaction.seq), now_ms)
            if now_ms - since_ms < DOUBT_MS:
                return False
            [words] = await self._ask([transaction], None)
            word = likeliest(words)
        if isinstance(word, Receipt):
            return await self._note_mined(transaction, word, words)
        return word == "taken" and await self._note_lost(transaction)

    async def _note_mined(
        self, transaction: OpenTransaction, receipt: Receipt, words: Sequence[Word]
    ) -> bool:
        form = next(one for one in transaction.attempts if one.hash == receipt.tx_hash)
        job = self._db.point(job_of_seq, transaction.job_seq)
        is_empty = job is not None and self._is_empty(form)
        status = 0 if is_empty else receipt.status
        spent = cost_of(receipt, words, self._limits.gas_max, form.fees.max_fee)
        landed = None
        if status == 0 and job is not None:
            legs = legs_of(job.target, job.data)
            landed = BROUGHT if legs and await all_are_used(self._rpc, legs) else None
            self.counts["reverts"] += not is_empty
        log.info(
            "relayer.mined",
            payment_id=None if job is None else job.payment_id,
            hash=receipt.tx_hash,
            block=receipt.block_number,
            status=receipt.status,
            spent=spent,
        )
        return await self._db.write(
            note_mined,
            transaction,
            Mined(receipt.block_number, status, spent),
            landed=landed,
            retry_at_ms=self._retry_at_ms(job, is_empty=is_empty),
            reason=UNTAKEN if is_empty else REVERTED,
        )

    def _retry_at_ms(self, job: Job | None, *, is_empty: bool) -> int:
        """When a job is tried again that was not carried out: one that no node took, or that reverted a few
        times, at its end, when it is given up.
        """
        if job is not None and (is_empty or self._db.point(count_reverts, job.seq) + 1 >= REVERTS_MAX):
            return job.valid_until_s * 1000
        return self._clock.now_ms() + retry_delay_ms(1 if job is None else job.tries + 1)

    async def _note_lost(self, transaction: OpenTransaction) -> bool:
        log.warning("relayer.nonce_taken", nonce=transaction.nonce, hash=transaction.newest.hash)
        self.counts["lost"] += 1
        return await self._db.write(note_lost, transaction, self._clock.now_ms())

    # Until then.

    async def keep(self, waiting: Sequence[OpenTransaction], now: Survey) -> None:
        """Send again what nodes may have forgotten, and pay better what waits for long. Lowest nonce first.

        Args:
            waiting: Those whose nonces the chain has not counted, the lowest first.
            now: How the chain stands.
        """
        self._broadcaster.keep_only(waiting)
        if not waiting:
            return
        if (filler := await self._filler(waiting[0].nonce, now.count, now.market)) is not None:
            waiting = [filler, *waiting]
        head = waiting[0]
        due = [one for one in waiting if self._broadcaster.is_due(one, self._limits.resend_ms)]
        heard = await self._broadcaster.send(due)
        heard |= await self._send_lower(waiting, heard)
        refused_ms = self._refused_ms(head, heard.get(head.seq))
        emptied = [head] if self._is_in_vain(head, refused_ms, now.time_s) else []
        dearer = [
            one
            for one in waiting
            if one not in emptied
            and self._wants_more(one, heard.get(one.seq), now.market, is_head=one is head)
        ]
        changed = [await self._empty(one, now.market) for one in emptied]
        changed += [await self._raise(one, now.market) for one in dearer]
        await self._broadcaster.send([one for one in changed if one is not None])
        # Not the first's alone: where nonces are filled one by one, the first is always new.
        waits_ms = self._clock.now_ms() - min(one.attempts[0].made_at_ms for one in waiting)
        if waits_ms >= STUCK_MS or refused_ms >= REFUSED_STUCK_MS:
            self._alarms.note("stuck", nonce=head.nonce, hash=head.newest.hash, waits_ms=waits_ms)

    def forget_refusals(self) -> None:
        """Nodes were away: what one of them refused before says nothing of the time between."""
        self._refused = None

    def _refused_ms(self, head: OpenTransaction, heard: Heard | None) -> int:
        """For how long the first was refused whenever it was sent, for a reason that nobody knows."""
        now_ms = self._clock.now_ms()
        if self._refused is not None and self._refused[0] != head.seq:
            self._refused = None
        if heard is not None and (head.is_out or heard.verdict != "other"):
            self._refused = None
        elif heard is not None or self._refused is not None:
            before_ms = None if self._refused is None else self._refused[1]
            self._refused = (head.seq, _since(before_ms, now_ms))
        return 0 if self._refused is None else now_ms - self._refused[1]

    def _is_in_vain(self, head: OpenTransaction, refused_ms: int, time_s: int) -> bool:
        """Whether nothing comes of the first any more than that it holds up those behind it."""
        if self._is_empty(head.newest):
            return False
        job = self._db.point(job_of_seq, head.job_seq)
        return refused_ms >= REFUSED_MS or (job is not None and job.valid_until_s <= time_s)

    def _is_empty(self, form: Attempt) -> bool:
        """Whether the form only uses its nonce."""
        return called_by(form.raw) == (self._signer.address, b"")

    async def _send_lower(
        self, waiting: Sequence[OpenTransaction], heard: Mapping[int, Heard]
    ) -> dict[int, Heard]:
        """A node that finds a nonce too high lacks the ones below: they first, then those again."""
        high = [one for one in waiting if one.seq in heard and heard[one.seq].verdict == "nonce_high"]
        if not high:
            return {}
        below = [one for one in waiting if one.nonce < high[-1].nonce and one.seq not in heard]
        return await self._broadcaster.send([*below, *high])

    async def _filler(self, first: int, nonce: int, market: Market) -> OpenTransaction | None:
        """A transaction that only uses the chain's next nonce, once ours have begun above it for a while."""
        now_ms = self._clock.now_ms()
        self._gap_since_ms = None if first == nonce else _since(self._gap_since_ms, now_ms)
        fees = first_fees(market, self._limits.max_fee)
        if self._gap_since_ms is None or now_ms - self._gap_since_ms < GAP_MS or fees is None:
            return None
        if not self._purse.take(PAYMENT_GAS * fees.max_fee):
            return None
        own = self._signer.address
        signed = self._signer.sign(self._chain_id, nonce, own, b"", PAYMENT_GAS, fees.max_fee, fees.tip)
        form = Attempt(signed.hash, signed.raw, fees, now_ms)
        log.warning("relayer.fills_gap", nonce=nonce, hash=form.hash)
        self.counts["fillers"] += 1
        return await self._db.write(add_filler, self._chain, own, nonce, PAYMENT_GAS, form, now_ms)

    def _wants_more(
        self, transaction: OpenTransaction, heard: Heard | None, market: Market, *, is_head: bool
    ) -> bool:
        if heard is not None and heard.verdict in WANTS_MORE:
            return True
        sent_at_ms = transaction.newest.sent_at_ms
        if sent_at_ms is None or 0 <= self._clock.now_ms() - sent_at_ms < self._limits.bump_after_ms:
            return False
        # Those behind the first wait for it, and not for a fee, unless theirs is too low as well.
        return is_head or transaction.newest.fees.max_fee <= market.base_fee

    async def _raise(self, transaction: OpenTransaction, market: Market) -> OpenTransaction | None:
        """Sign the same call for the same nonce with higher fees, and store it. None where that cannot be."""
        last = transaction.newest
        limit = min(self._limits.max_fee, COST_MAX // transaction.gas)
        fees = raised_fees(last.fees, market, limit, taken=transaction.is_out)
        if fees is None or len(transaction.attempts) >= ATTEMPTS_MAX:
            self._alarms.note("fee_limit", nonce=transaction.nonce, base_fee=market.base_fee)
            return None
        raised = await self._sign(transaction, called_by(last.raw), transaction.gas, fees)
        if raised is not None:
            self.counts["bumps"] += 1
            log.info("relayer.bumped", nonce=raised.nonce, hash=raised.newest.hash, **_facts(fees))
        return raised

    async def _empty(self, transaction: OpenTransaction, market: Market) -> OpenTransaction | None:
        """Sign what only uses the nonce, and store it. None where that cannot be.

        With gas of its own, as that of the call may be what nodes refuse; and at the limit with the fees that
        it has, as nodes that took nothing want no more for another.
        """
        last = transaction.newest.fees
        limit = min(self._limits.max_fee, COST_MAX // PAYMENT_GAS)
        fees = raised_fees(last, market, limit) or last
        emptied = await self._sign(transaction, (self._signer.address, b""), PAYMENT_GAS, fees)
        if emptied is not None:
            self.counts["fillers"] += 1
            log.warning(
                "relayer.empties_nonce", nonce=emptied.nonce, hash=emptied.newest.hash, **_facts(fees)
            )
        return emptied

    async def _sign(
        self, transaction: OpenTransaction, call: tuple[str, bytes], gas: int, fees: Fees
    ) -> OpenTransaction | None:
        """Another form, stored before anybody has it. None where it costs too much, or all is over."""
        if not self._purse.take(max(0, gas * fees.max_fee - transaction.reserved)):
            return None
        signed = self._signer.sign(self._chain_id, transaction.nonce, *call, gas, fees.max_fee, fees.tip)
        # Of forms with the same fees the last is the newest, whatever the wall clock says.
        made_at_ms = max(self._clock.now_ms(), transaction.newest.made_at_ms + 1)
        form = Attempt(signed.hash, signed.raw, fees, made_at_ms)
        if not await self._db.write(add_attempt, transaction.seq, form, gas):
            return None
        return msgspec.structs.replace(transaction, gas=gas, attempts=(*transaction.attempts, form))


def _since(before_ms: int | None, now_ms: int) -> int:
    """Since when something holds that held before, or holds now; the wall clock may have been set back."""
    return now_ms if before_ms is None else min(before_ms, now_ms)


def _facts(fees: Fees) -> dict[str, int]:
    return {"max_fee": fees.max_fee, "tip": fees.tip}
