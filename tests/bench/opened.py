"""Open payments in bulk, as rows: what their actors leave when they go to sleep, or are killed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from payd.chains.rates import RateTable
from payd.chains.simulated import SimulatedChain
from payd.core.payment import FundsCommitted, Payment, open_payment, transition
from payd.core.period import DAY_MS
from payd.store.db import Tx
from tests.bench.realm import payment_id, writing_in_bulk
from tests.inserts import insert_payment, record_transition
from tests.ledger import event_of
from tests.shop import USDC_BASE, WALLET

# As payd.toml ships it.
CONFIRM_AFTER_MS: Final = 1000
SETTLE_AFTER_MS: Final = 1000
LIFETIME_MS: Final = DAY_MS // 2


def fill_open(
    path: Path, count: int, *, account_id: str, merchant_id: str, now_ms: int, overdue: bool = False
) -> None:
    """Give an account of a realm that is up to date so many open payments; those before them must be none.

    Args:
        path: The realm's file.
        count: How many.
        account_id: Whose.
        merchant_id: Which merchant's.
        now_ms: Unix milliseconds. They were created before, one a millisecond.
        overdue: False: nobody has paid, and their windows are open for half a day. True: half of them were
            paid and wait for their confirmation, the others' windows have closed; all that is due by now.
    """
    chain = SimulatedChain(CONFIRM_AFTER_MS, SETTLE_AFTER_MS, RateTable())
    begun_ms = now_ms - count - (LIFETIME_MS if overdue else 0)
    with writing_in_bulk(path) as tx:
        for number in range(1, count + 1):
            draft = _draft(number, account_id, merchant_id, begun_ms + number)
            moved = open_payment(draft)
            insert_payment(tx, moved, event_of(moved), draft.expires_at_ms)
            if overdue and number % 2:
                _pay(tx, chain, draft)


def _draft(number: int, account_id: str, merchant_id: str, at_ms: int) -> Payment:
    return Payment(
        id=payment_id(number),
        account_id=account_id,
        merchant_id=merchant_id,
        reference_id=f"ORDER-{number}",
        currency="USD",
        value=2500,
        created_at_ms=at_ms,
        expires_at_ms=at_ms + LIFETIME_MS,
        updated_at_ms=at_ms,
    )


def _pay(tx: Tx, chain: SimulatedChain, draft: Payment) -> None:
    at_ms = draft.created_at_ms + 1000
    processing = chain.simulated_processing(draft, USDC_BASE, f"eip155:8453:{WALLET}", at_ms)
    moved = transition(draft, FundsCommitted(processing), at_ms)
    record_transition(tx, moved, event_of(moved), chain.due_at_ms(moved.payment))
