"""What a merchant asks of its buyers: whether an account still owes an answer, and taking it.

Answers are stored before funds are committed; afterwards only those of the buyer that are not there yet. They
are sealed here, and no event, feed or log has them.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; SPEC.md, "POST /v1/gateway/payment/{id}/confirm".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from payd.actors.payments import PaymentActor, Payments
from payd.chains.base import AsksBuyers
from payd.core.caip import AccountId, canonical_chain, parse_account
from payd.core.collect import Answered, Field, answers, check_answers, holder_of, problems
from payd.core.errors import InvalidParams, InvalidState
from payd.core.payment import Payment
from payd.core.status import Status
from payd.store.collected import Collected, holders_of, put_collected, sealed_answers
from payd.store.db import Tx
from payd.store.merchants import fields_asked
from payd.store.options import account_of
from payd.store.seal import Seal

UNANSWERED: Final = (
    "The merchant asks for details first. Open the option's collectData.url, or send them as collectedData."
    " The payment is still open."
)
UNKNOWN_OPTION: Final = "This option does not belong to the payment. Ask for options again."


class Given(msgspec.Struct, frozen=True):
    """What a wallet's own form asked: `(field id, value)`, what to seal it with, and how it was written."""

    values: tuple[tuple[str, str], ...]
    seal: Seal
    by_name: bool = False


def fields_for(payments: Payments, payment: Payment, account: AccountId) -> tuple[Field, ...]:
    """What is asked of who pays from this account, answered or not."""
    return _asked(payments, payment, [account])[account]


def unanswered(
    payments: Payments, payment: Payment, accounts: Iterable[AccountId]
) -> dict[AccountId, tuple[Field, ...]]:
    """What is asked of these accounts and not answered yet; those that owe nothing are left out."""
    found = _asked(payments, payment, accounts)
    if not any(found.values()):
        return {}
    answered = payments.db.point(holders_of, payment.id)
    return {
        account: fields for account, fields in found.items() if fields and holder_of(account) not in answered
    }


def _asked(
    payments: Payments, payment: Payment, accounts: Iterable[AccountId]
) -> dict[AccountId, tuple[Field, ...]]:
    """What is asked of each account: what the merchant asks, else what its chain does."""
    by_merchant = payments.db.point(fields_asked, payment.merchant_id)

    def asked(account: AccountId) -> tuple[Field, ...]:
        if by_merchant:
            return by_merchant
        chain = payments.chain_of(str(canonical_chain(account.chain)))
        return chain.fields_of(account) if isinstance(chain, AsksBuyers) else ()

    return {account: asked(account) for account in accounts}


def refuse_unanswered(payments: Payments, payment: Payment, account: AccountId) -> None:
    """Refuse to go on where a required answer is not there.

    Raises:
        InvalidParams: It is not.
    """
    fields = unanswered(payments, payment, [account]).get(account, ())
    if any(field.required for field in fields):
        raise InvalidParams(UNANSWERED, details={"field": "collectedData"})


async def take_given(payments: Payments, actor: PaymentActor, option_id: str, given: Given) -> None:
    """Take the answers that a wallet sends with an option, in a turn of its payment.

    Safe to repeat: what was taken before funds were committed is not looked at again.

    Raises:
        PaymentNotFound: There is no such payment.
        InvalidParams: The option was not handed out for it.
        ParamsValidation: An answer is missing, wrong, or was not asked for.
        RateLimited: Too many accounts have answered.
    """
    payment = actor.load()
    option_account = payments.db.point(account_of, payment.id, option_id)
    if option_account is None:
        raise InvalidParams(UNKNOWN_OPTION)
    account = parse_account(option_account)
    if payment.status is not Status.REQUIRES_ACTION and not _is_owed(payments, payment, account):
        return
    fields = fields_for(payments, payment, account)
    taken = check_answers(fields, given.values, by_name=given.by_name)
    if fields:
        await _store(payments, given.seal, payment, [account], taken)


async def take_form(
    payments: Payments, seal: Seal, payment_id: str, accounts: Sequence[AccountId], values: Mapping[str, str]
) -> None:
    """Take a filled-in form, for all of these accounts at once.

    Raises:
        PaymentNotFound: There is no such payment.
        InvalidState: It needs no action any more.
        RateLimited: Too many accounts have answered.
    """
    await payments.ask(payment_id, lambda actor: _take_form(payments, seal, actor, accounts, values))


async def _take_form(
    payments: Payments,
    seal: Seal,
    actor: PaymentActor,
    accounts: Sequence[AccountId],
    values: Mapping[str, str],
) -> None:
    payment = actor.load()
    if payment.status is not Status.REQUIRES_ACTION:
        raise InvalidState(f"The payment is {payment.status.value}; nothing is asked any more.")
    asked = _asked(payments, payment, accounts)
    for fields in {fields for fields in asked.values() if fields}:
        # The page showed the problems; a merchant that asks for more since then gets the page shown again.
        if problems(fields, values):
            raise InvalidState("The questions have changed. Load the page again.")
        of_these = [account for account in accounts if asked[account] == fields]
        await _store(payments, seal, payment, of_these, answers(fields, values))


async def _store(
    payments: Payments,
    seal: Seal,
    payment: Payment,
    accounts: Sequence[AccountId],
    taken: Sequence[Answered],
) -> None:
    now_ms = payments.clock.now_ms()
    holders = dict.fromkeys(holder_of(account) for account in accounts)
    rows = [
        Collected(payment.id, holder, sealed_answers(seal, payment.id, holder, taken), now_ms)
        for holder in holders
    ]

    def step(tx: Tx) -> None:
        for row in rows:
            put_collected(tx, row)

    await payments.db.write(step)


def _is_owed(payments: Payments, payment: Payment, account: AccountId) -> bool:
    """Whether this account paid, as its chain showed first, and its answers are not there."""
    if payment.processing is None or payment.processing.buyer is None:
        return False
    holder = holder_of(account)
    is_buyer = holder_of(parse_account(payment.processing.buyer)) == holder
    return is_buyer and holder not in payments.db.point(holders_of, payment.id)
