"""What we pay for others on Solana: what landed of it, what it cost, and what the fee payer still has.

Budgets are reserved where transactions are signed. Here reservations end, by what the chain shows.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import structlog
import trio
from solders.pubkey import Pubkey

from payd.actors.relay_alarms import Alarms
from payd.chains.rpc import Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import Landed, decode_accounts, decode_landed
from payd.chains.solana.asking import account_calls, transaction_call
from payd.chains.solana.budget import DAY_MS
from payd.chains.solana.fates import Doubts, ask_enough
from payd.chains.solana.terms import Terms
from payd.clock import Clock
from payd.store.builds import (
    Build,
    Spending,
    builds_of_buyer,
    builds_out,
    end_builds,
    reserved_on_builds,
    spent_on_builds,
)
from payd.store.db import Database

log = structlog.get_logger("payd.relayer")

# What is out lives for about a minute. While nothing is, only the balance is read.
EVERY_S: Final = 10.0
IDLE_S: Final = 60.0
# Looked after at once, the oldest first: nothing stays out for long.
OUT_MAX: Final = 512
# A payment that needs no new account: two signatures, and the price of its compute units.
PAYMENT_LAMPORTS: Final = 15_000
# The rent of a token account, which the first payment to a destination costs besides.
ACCOUNT_LAMPORTS: Final = 2_100_000
# Less than this a wallet may not have; then it is gone.
KEEP_LAMPORTS: Final = 890_880
# A fee payer that has less than so many payments with new accounts cost should be funded now.
LOW_PAYMENTS: Final = 20

Ended = tuple[bytes, Literal["landed", "void"], int]


class Purse:
    """The fee payer's, on one chain.

    Args:
        db: The realm's store.
        clock: The realm's.
        rpc: The chain's nodes.
        terms: What may be spent, and whose money it is.
        alarms: Told when there is too little.

    Attributes:
        balance: In lamports; None: not known yet, or there is no fee payer.
    """

    def __init__(self, db: Database, clock: Clock, rpc: Rpc, terms: Terms, alarms: Alarms) -> None:
        self._db = db
        self._clock = clock
        self._rpc = rpc
        self._terms = terms
        self._chain = str(terms.chain)
        self._alarms = alarms
        self._doubts = Doubts(rpc, "landed", "failed")
        self._looked_s = -float("inf")
        self.balance: int | None = None

    @property
    def payer(self) -> Pubkey | None:
        """Who pays; None: buyers do."""
        return self._terms.sponsor_key

    def spent(self) -> Spending:
        """In the last 24 hours, with what may still be."""
        return self._db.point(spent_on_builds, self._chain, self._clock.now_ms() - DAY_MS)

    def can_pay_one(self, buyer: str) -> bool:
        """Whether one more payment of this account, canonical CAIP-10, would be paid for, as far as known."""
        if self.payer is None or self.balance is None:
            return False
        since_ms = self._clock.now_ms() - DAY_MS
        return (
            self._free(self.balance) >= PAYMENT_LAMPORTS
            and self.spent().cost + PAYMENT_LAMPORTS <= self._terms.spend_per_day
            and self._db.point(builds_of_buyer, self._chain, buyer, since_ms) < self._terms.relays_per_buyer
        )

    def is_out(self) -> bool:
        """Whether anything may still have to be paid for."""
        return bool(self._db.point(builds_out, self._chain, 1))

    async def look(self) -> None:
        """See to what is out, and read the balance; not more often than that makes sense.

        Raises:
            NodesDown, BadAnswer: No node tells of it.
            StoreUnavailable, OutcomeUnknown: Nothing may have been stored.
        """
        if self.payer is None:
            return
        out = self._db.point(builds_out, self._chain, OUT_MAX)
        if trio.current_time() - self._looked_s >= (EVERY_S if out else IDLE_S):
            await self._settle(out)
            [result] = await self._rpc.batch(account_calls([self.payer]))
            if isinstance(result, RpcError):
                raise BadAnswer(f"the node cannot answer: {result}")
            [account] = decode_accounts(result, 1)[1]
            self.balance = 0 if account is None else account.lamports
            self._looked_s = trio.current_time()
        self._note_alarms()

    def _free(self, balance: int) -> int:
        return balance - KEEP_LAMPORTS - self._db.point(reserved_on_builds, self._chain).cost

    def _note_alarms(self) -> None:
        assert self.balance is not None, "it was read"
        if self._free(self.balance) < PAYMENT_LAMPORTS:
            self._alarms.note("balance_empty", balance=self.balance)
        if self._free(self.balance) < LOW_PAYMENTS * ACCOUNT_LAMPORTS:
            self._alarms.note("balance_low", balance=self.balance)
        spent = self.spent().cost
        if spent + PAYMENT_LAMPORTS > self._terms.spend_per_day:
            self._alarms.note("budget", spent=spent)

    # What is out.

    async def _settle(self, out: Sequence[Build]) -> None:
        """End the reservations of what is final, at its real cost, and of what can not land any more.

        What a single node has as final is paid for, whatever others forgot: it counts among what was spent.
        So does what was given up, of which no node can tell.
        """
        if not out:
            return
        tx_ids = [_tx_id(one) for one in out]
        self._doubts.keep(set(tx_ids))
        words = await ask_enough(self._rpc, tx_ids)
        ends = {
            one.message_hash: self._doubts.end_of(
                words, _tx_id(one), one.valid_until_height, self._clock.now_ms() - one.created_at_ms
            )
            for one in out
        }
        paid = [one for one in out if ends[one.message_hash] in ("landed", "failed", "forgotten")]
        void = [one for one in out if ends[one.message_hash] == "nowhere"]
        ended: list[Ended] = [(one.message_hash, "void", 0) for one in void]
        ended += await self._costs(paid)
        if ended:
            await self._db.write(end_builds, ended)
            log.info("submitter.builds_ended", chain=self._chain, landed=len(paid), void=len(void))

    async def _costs(self, paid: Sequence[Build]) -> list[Ended]:
        """What transactions cost us that are final; what no node shows costs what was reserved for it."""
        if not paid:
            return []
        calls = [transaction_call(_tx_id(one), "finalized") for one in paid]
        results = await self._rpc.batch(calls)
        return [
            (one.message_hash, "landed", self._cost(one, result))
            for one, result in zip(paid, results, strict=True)
        ]

    def _cost(self, build: Build, result: object) -> int:
        try:
            landed = None if isinstance(result, RpcError) else decode_landed(result, _tx_id(build))
        except BadAnswer:
            landed = None
        return build.cost if landed is None else cost_to(self.payer, landed, build.cost)


def cost_to(payer: Pubkey | None, landed: Landed, at_most: int) -> int:
    """What a transaction cost its fee payer, fee and rent; what was reserved, where it is another's."""
    if payer is None or landed.keys[0] != payer:
        return at_most
    return max(0, landed.pre[0] - landed.post[0])


def _tx_id(build: Build) -> str:
    assert build.tx_id is not None, "what we pay for is signed by us"
    return build.tx_id
