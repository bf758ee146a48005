"""Confirm: reserve the payment, check the results outside its inbox, commit only if it still needs action.

Turn 1 reserves; the check runs with a deadline and with nobody waiting in the inbox; turn 2 commits. Cancel
and expiry wait for turn 2, so a confirm and a cancel that race end in exactly one of the two.

Source: SPEC.md, "POST /v1/gateway/payment/{id}/confirm"; DESIGN.md, "5. A payment is an actor".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog
import trio

from payd.actors.collecting import Given, refuse_unanswered, take_given
from payd.actors.offers import TOO_OLD, refuse_expired, valid_quotes
from payd.actors.payments import PaymentActor, Payments
from payd.actors.tending import still_unpaid
from payd.chains.base import Accepted, Misaligned, Refused, Unseen, Verdict
from payd.core.caip import canonical_chain, parse_account
from payd.core.errors import ChainUnavailable, InvalidState, QuoteExpired
from payd.core.failure import MISALIGNED
from payd.core.option import Quote, Result, hash_results, told_transactions
from payd.core.payment import FundsCommitted, Payment, PaymentFailed
from payd.core.status import Status
from payd.core.submission import Submission
from payd.store.db import Tx
from payd.store.options import insert_hints, keep_hints, quotes_of, told_before
from payd.store.relays import insert_job
from payd.store.sightings import hold_to_commitment, pay_by_told
from payd.store.submissions import insert_submission
from payd.store.transfers import transfers_of_payment

log = structlog.get_logger("payd.confirm")

# A check that a node keeps waiting must not keep cancel and expiry waiting for longer.
CHECK_DEADLINE_S: Final = 20.0


async def confirm(
    payments: Payments,
    payment_id: str,
    option_id: str,
    results: Sequence[Result],
    given: Given | None = None,
) -> Payment:
    """Take a wallet's results for an option.

    Safe to repeat: the results already accepted give the payment as it is now, in every state; so does the
    hash of a transaction that the chain itself showed first. Goes on to its end when the caller is gone.

    What the merchant asks of its buyers is there before anything is checked, or the confirm is refused.

    Args:
        payments: The realm's.
        payment_id: Which payment.
        option_id: As it was handed out.
        results: One for each action, in order.
        given: The buyer's answers, where a wallet asked for them itself.

    Returns:
        The payment after it, or as it is when it is cancelled or failed, or when no node shows the
        transaction yet: its hash is kept, and its transfer found once it is mined.

    Raises:
        PaymentNotFound: There is no such payment.
        PaymentExpired: Its window has closed.
        InvalidState: Other results were accepted before.
        InvalidParams: The option is unknown, unresolved, the data unusable, or the merchant asks for answers
            that are not there. The payment stays open.
        ParamsValidation: The answers are not what is asked for. The payment stays open.
        InvalidSignature: A signature does not verify. The payment stays open.
        QuoteExpired, RouteExpired: Ask for options again.
        ChainUnavailable: No node answers, or none in time. The payment stays open.
    """
    payments.find(payment_id)
    return await payments.in_background(lambda: _confirm(payments, payment_id, option_id, results, given))


async def _confirm(
    payments: Payments, payment_id: str, option_id: str, results: Sequence[Result], given: Given | None
) -> Payment:
    key = hash_results(option_id, results)
    try:
        quotes = await payments.ask(
            payment_id,
            lambda actor: _reserve(payments, actor, option_id, key, told_transactions(results), given),
        )
        if isinstance(quotes, Payment):
            if quotes.results_hash != key:
                await _keep_hints(payments, payment_id, option_id, results)
            return quotes
        return await _check_and_commit(payments, payment_id, quotes, key, results)
    except Exception:
        await _keep_hints(payments, payment_id, option_id, results)
        raise


async def _reserve(
    payments: Payments,
    actor: PaymentActor,
    option_id: str,
    key: bytes,
    told: Sequence[str],
    given: Given | None,
) -> list[Quote] | Payment:
    """Turn 1: quotes to check against, with the payment reserved; or the payment, if nothing is to do.

    Answers are taken in the same turn: between them and the reservation no other confirm brings its own.
    """
    if given is not None:
        await take_given(payments, actor, option_id, given)
    payment = actor.load()
    if payment.results_hash == key or payment.status in (Status.CANCELLED, Status.FAILED):
        return payment
    now_ms = payments.clock.now_ms()
    refuse_expired(payment, now_ms)
    if payment.status is not Status.REQUIRES_ACTION:
        if payment.results_hash is None and _shown(payments, payment, told):
            return payment
        raise InvalidState(f"The payment is {payment.status.value} with other results. Do not pay again.")
    quotes = valid_quotes(payments, payment, option_id, now_ms, resolved=True)
    refuse_unanswered(payments, payment, parse_account(quotes[0].account))
    actor.reserved = True
    return quotes


def _shown(payments: Payments, payment: Payment, told: Sequence[str]) -> bool:
    """Whether the chain moved the payment before its wallet could, by what the wallet tells of now."""
    ids = {transfer.tx_id for transfer in payments.db.point(transfers_of_payment, payment.id)}
    return bool(told) and (ids.issuperset(told) or payments.db.point(told_before, payment.id, told))


async def _check_and_commit(
    payments: Payments, payment_id: str, quotes: list[Quote], key: bytes, results: Sequence[Result]
) -> Payment:
    verdict: Verdict | None = None
    actor = payments.turns.wake(payment_id)
    try:
        payment = actor.load()
        with trio.move_on_after(CHECK_DEADLINE_S):
            verdict = await _check(payments, payment, quotes, results)
        if verdict is None:
            log.warning("confirm.check_timed_out", payment_id=payment_id)
            raise ChainUnavailable(
                "The blockchain's nodes take too long. Nothing was changed; send the same results again."
            )
        found, option_id = verdict, quotes[0].option_id
        return await payments.ask(
            payment_id, lambda actor: _commit(payments, actor, found, option_id, key, results), waits=False
        )
    finally:
        payments.turns.release(actor)


async def _check(
    payments: Payments, payment: Payment, quotes: list[Quote], results: Sequence[Result]
) -> Verdict:
    """One quote that accepts is enough. The results are misaligned only when they are so for every quote.

    A wallet answers one of the quotes, and nothing says which: results that are refused for one must not fail
    the payment because another has other actions; not even those of one that has ended since.
    """
    chain = payments.chain_of(str(canonical_chain(parse_account(quotes[0].account).chain)))
    assert chain is not None, "the route was checked in the turn before"
    now_ms = payments.clock.now_ms()
    refused: Refused | None = None
    unseen: Unseen | None = None
    for quote in quotes:
        match await chain.check(payment, quote, results, now_ms):
            case Accepted() as accepted:
                return accepted
            case Unseen() as nothing:
                unseen = nothing
            case Refused() as refusal:
                refused = refused or refusal
    return unseen or refused or _other_length(payments, payment, quotes, len(results))


def _other_length(payments: Payments, payment: Payment, valid: list[Quote], count: int) -> Verdict:
    """What results are that no valid quote has the actions for: too late, if one that has ended had them."""
    handed = payments.db.point(quotes_of, payment.id, valid[0].option_id)
    lengths = {len(quote.actions) for quote in handed if quote.resolved}
    if count in lengths and all(len(quote.actions) != count for quote in valid):
        return Refused(QuoteExpired(TOO_OLD))
    return Misaligned()


async def _commit(
    payments: Payments,
    actor: PaymentActor,
    verdict: Verdict,
    option_id: str,
    key: bytes,
    results: Sequence[Result],
) -> Payment:
    """Turn 2."""
    now_ms = payments.clock.now_ms()

    def hints(tx: Tx) -> None:
        insert_hints(tx, actor.key, option_id, told_transactions(results), now_ms)

    def unless_paid(tx: Tx) -> None:
        # Whoever has the link may send anything; what the chain shows is worth more.
        still_unpaid(tx, [actor.key])
        hints(tx)

    match verdict:
        case Accepted(processing=processing, job=job):

            def owed(tx: Tx) -> None:
                hints(tx)
                if job is None:
                    pay_by_told(tx, actor.key)
                    return  # whatever pays first will do
                if isinstance(job, Submission):
                    insert_submission(tx, actor.key, job, now_ms)
                else:
                    insert_job(tx, actor.key, job, now_ms)
                hold_to_commitment(tx, actor.key)

            payment = await actor.move(FundsCommitted(processing, key), also=owed)
            if job is not None:
                payments.tell_relay(job.chain)
            return payment
        case Misaligned():
            return await actor.move(PaymentFailed(MISALIGNED), also=unless_paid)
        case Unseen():
            await _keep_hints(payments, actor.key, option_id, results)
            return actor.load()
        case Refused(error=error):
            raise error


async def _keep_hints(payments: Payments, payment_id: str, option_id: str, results: Sequence[Result]) -> None:
    hashes = told_transactions(results)
    if hashes:
        await payments.db.write(keep_hints, payment_id, option_id, hashes, payments.clock.now_ms())
