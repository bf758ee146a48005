"""What the relayer owes and has not sent: tried on the chain, signed, stored, and only then sent.

A call that the chain refuses waits and is tried again; one that never left is given up when it is refused for
good or its time is over. One that left is never given up on before its time is over.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from payd.actors.relay_broadcast import Broadcaster
from payd.actors.relay_flight import BROUGHT
from payd.actors.relay_purse import Purse
from payd.chains.evm.legs import all_are_used, legs_of
from payd.chains.evm.signer import Signer
from payd.chains.evm.survey import Survey
from payd.chains.evm.trial import Trial, by_two, is_refused, try_calls
from payd.chains.rpc import Rpc
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.failure import TOO_LATE
from payd.core.gas import Fees, first_fees
from payd.core.relay import (
    COST_MAX,
    REFUSALS_MAX,
    RETRY_FIRST_MS,
    SEND_MARGIN_S,
    RelayLimits,
    retry_delay_ms,
)
from payd.store.db import Database
from payd.store.relay_transactions import (
    Attempt,
    OpenTransaction,
    add_transaction,
    next_nonce,
    open_transactions,
)
from payd.store.relays import (
    Job,
    doubt_job,
    due_jobs,
    kill_job,
    land_job,
    late_jobs,
    put_off_job,
    unshown_jobs,
)
from payd.store.sightings import matched_of, pay_in_stead
from payd.store.transfers import transfers_of_payment

log = structlog.get_logger("payd.relayer")

# So many are buried in one tick: what a long downtime leaves behind does not hold up what can still be sent.
LATE_MAX: Final = 64
# How often nodes are asked again of what is said to have landed: idle ticks come once a minute.
BROUGHT_AGAIN_MS: Final = 55_000

TOO_DEAR: Final = "It waits until the relayer may spend more."
MERCHANT_FIRST: Final = "Only the fee is left, and the chain does not show that the merchant was paid."
PAID_OTHERWISE: Final = "The chain shows another transfer that pays."
IN_DOUBT: Final = "The nodes do not agree whether it was carried out."


class Queue:
    """The queued jobs of one chain.

    Args:
        db: The realm's store.
        clock: The realm's.
        rpc: The chain's nodes.
        chain: An `eip155` chain.
        signer: The key.
        limits: What may be spent, and the pace.
        purse: What is left of it.
        broadcaster: Sends.
        landed: Called when somebody else has brought a job to the chain.
        died: Called when a job is dead that never left.
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
        broadcaster: Broadcaster,
        landed: Callable[[], None],
        died: Callable[[], None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._chain = str(chain)
        self._chain_id = int(chain.reference)
        self._signer = signer
        self._limits = limits
        self._purse = purse
        self._broadcaster = broadcaster
        self._landed = landed
        self._died = died
        self._asked_again_ms: int | None = None

    async def work(self, survey: Survey) -> None:
        """Send what is due, as far as there is room for it. What was stored before goes first.

        Raises:
            NodesDown: No node says how a call would fare.
        """
        await self._bury(survey.time_s)
        room = self._room()
        fees = first_fees(survey.market, self._limits.max_fee)
        if room == 0 or fees is None or not self._purse.can_pay_one() or self.is_count_in_doubt(survey):
            return
        await self._ask_again(survey.time_s)
        jobs = self._db.point(due_jobs, self._chain, self._clock.now_ms(), room)
        if not jobs:
            return
        calls = [(job.target, job.data) for job in jobs]
        trials = await try_calls(self._rpc, self._signer.address, calls, self._limits.gas_max)
        stored = [
            transaction
            for job, trial in zip(jobs, trials, strict=True)
            if (transaction := await self._decide(job, trial, fees, survey.count)) is not None
        ]
        await self._broadcaster.send(stored)

    def is_count_in_doubt(self, survey: Survey) -> bool:
        """Whether one node alone has counted what no row explains: above a gap, a nonce holds up all."""
        own = self._db.point(next_nonce, self._chain, self._signer.address, 0)
        return survey.count > max(survey.sure, own)

    async def _ask_again(self, time_s: int) -> None:
        """Doubt what is said to have landed, until the chain shows it.

        A reorg may have taken it before the watcher read that block, or a node been wrong once; what was
        brought, or cancelled, lands again at the cost of a question.
        """
        now_ms = self._clock.now_ms()
        if self._asked_again_ms is not None and 0 <= now_ms - self._asked_again_ms < BROUGHT_AGAIN_MS:
            return
        self._asked_again_ms = now_ms
        for seq in await self._db.look(unshown_jobs, self._chain, time_s + SEND_MARGIN_S):
            await self._db.write(doubt_job, seq)

    def _room(self) -> int:
        """How many may be sent. None while a stored one is not out: those after it would wait for it."""
        most = self._limits.in_flight_max
        open_ones = self._db.point(open_transactions, self._chain, self._signer.address, most)
        return most - len(open_ones) if all(one.is_out for one in open_ones) else 0

    async def _bury(self, time_s: int) -> None:
        """Give up what the chain refuses by now, or would before it could be mined."""
        for job in self._db.point(late_jobs, self._chain, time_s + SEND_MARGIN_S, LATE_MAX):
            await self._kill(job, TOO_LATE)

    async def _kill(self, job: Job, reason: str) -> None:
        if await self._db.write(kill_job, job.seq, reason):
            log.warning("relayer.gave_up", payment_id=job.payment_id, left_us=job.left_us, reason=reason)
            if not job.left_us:
                self._died()

    async def _decide(self, job: Job, trial: Trial, fees: Fees, count: int) -> OpenTransaction | None:
        """What to do about a job after its trial; a transaction where it is to be sent."""
        # Once may be a matter of blocks: who is ahead knows better than two who are not.
        is_again = job.tries > 0 or job.reason == IN_DOUBT
        if is_again or trial.verdict == "unknown":
            call, gas_max = (job.target, job.data), self._limits.gas_max
            trial = await by_two(self._rpc, self._signer.address, call, gas_max) or trial
        match trial.verdict:
            case "used":
                if not await self._land(job):
                    await self._put_off(job, IN_DOUBT)
            case "refused":
                await self._refused(job, trial)
            case "unknown":
                await self._put_off(job, trial.words)
            case "go" if (reason := await self._reason_to_wait(job, trial)) is not None:
                await self._put_off(job, reason)
            case "go" if (cost := trial.gas * fees.max_fee) <= COST_MAX and self._purse.take(cost):
                return await self._store(job, trial, fees, count)
            case "go":
                await self._put_off(job, TOO_DEAR)
        return None

    async def _reason_to_wait(self, job: Job, trial: Trial) -> str | None:
        """Why the buyer must not be charged now, by what the chain shows; None: nothing speaks against it.

        Where only the operator's part is left, the merchant got his by a stranger's hand, or the buyer took
        it back and owes no fee. Where the merchant's is left, another transfer may have paid: he would pay
        twice.
        """
        left, asked = legs_of(trial.target, trial.data), legs_of(job.target, job.data)
        is_fee_alone = bool(left) and left[0].nonce != asked[0].nonce
        is_paid = bool(self._db.point(matched_of, job.payment_id)) or await self._is_paid_beside(job)
        if is_fee_alone:
            return None if is_paid else MERCHANT_FIRST
        return PAID_OTHERWISE if is_paid else None

    async def _is_paid_beside(self, job: Job) -> bool:
        """Whether the buyer has paid in another way since, which pays from now on: nobody has the signature.

        What was seen before it did not keep him from signing: a node may have made it up.
        """
        seen = () if job.left_us else self._db.point(transfers_of_payment, job.payment_id)
        is_too_much = any(one.kind == "surplus" and one.seen_at_ms > job.created_at_ms for one in seen)
        return is_too_much and await self._db.write(pay_in_stead, job.payment_id, job.created_at_ms)

    async def _land(self, job: Job) -> bool:
        """Note that others brought a job to the chain; False where nodes do not say so."""
        legs = legs_of(job.target, job.data)
        if not legs or not await all_are_used(self._rpc, legs):
            return False
        if await self._db.write(land_job, job.seq, BROUGHT):
            if job.reason != BROUGHT:
                log.info("relayer.brought_by_others", payment_id=job.payment_id)
            self._landed()
        return True

    async def _refused(self, job: Job, trial: Trial) -> None:
        tries = job.tries + 1
        log.info("relayer.refused", payment_id=job.payment_id, tries=tries, words=trial.words)
        if tries >= REFUSALS_MAX:
            # What is used is refused as well, by a node that does not say so.
            if await self._land(job):
                return
            sender = self._signer.address
            if not job.left_us and await is_refused(self._rpc, sender, trial.target, trial.data):
                await self._kill(job, trial.words)
                return
        until_ms = self._clock.now_ms() + retry_delay_ms(tries)
        await self._db.write(put_off_job, job.seq, until_ms, trial.words, refused=True)

    async def _put_off(self, job: Job, reason: str) -> None:
        until_ms = self._clock.now_ms() + RETRY_FIRST_MS
        await self._db.write(put_off_job, job.seq, until_ms, reason, refused=False)

    async def _store(self, job: Job, trial: Trial, fees: Fees, count: int) -> OpenTransaction | None:
        """Sign with the next nonce, and store it in one transaction with what it means for the job."""
        sender = self._signer.address
        nonce = self._db.point(next_nonce, self._chain, sender, count)
        signed = self._signer.sign(
            self._chain_id, nonce, trial.target, trial.data, trial.gas, fees.max_fee, fees.tip
        )
        now_ms = self._clock.now_ms()
        form = Attempt(signed.hash, signed.raw, fees, now_ms)
        return await self._db.write(add_transaction, job, sender, nonce, trial.gas, form, now_ms)
