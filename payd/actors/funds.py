"""Why a buyer's accounts are offered what they are: what they have of what the merchant takes.

Nothing here moves a payment or hands anything out.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from payd.actors.offers import asks_of
from payd.actors.payments import Payments
from payd.chains.base import Ask, Funds, ShowsFunds
from payd.core.caip import AccountId
from payd.core.errors import ChainUnavailable
from payd.core.option import OPTIONS_PER_ANSWER_MAX
from payd.core.status import Status


class Shown(msgspec.Struct, frozen=True):
    """What one account has for one of the assets; both as they are named in the offers."""

    asset: str
    account: AccountId
    funds: Funds


async def show_funds(payments: Payments, payment_id: str, accounts: Sequence[AccountId]) -> list[Shown]:
    """What accounts have of the assets that pay a payment, as far as their chains can say.

    Returns:
        None of a chain that is not there to be asked; nothing once the payment needs no action. At most as
        many as there are options.

    Raises:
        PaymentNotFound: There is no such payment.
    """
    now_ms = payments.clock.now_ms()
    payment = payments.find(payment_id)
    if payment.status is not Status.REQUIRES_ACTION:
        return []
    shown: list[Shown] = []
    for chain, asked in asks_of(payments, payment, accounts):
        if not isinstance(chain, ShowsFunds):
            continue
        asks: list[Ask] = [ask for _, _, ask in asked][: OPTIONS_PER_ANSWER_MAX - len(shown)]
        try:
            await chain.read_ahead(payment, asks, now_ms)
            for ask in asks:
                funds = await chain.funds(payment, ask.asset, ask.account, ask.destination, now_ms)
                if funds is not None:
                    shown.append(Shown(str(ask.asset), ask.account, funds))
        except ChainUnavailable:
            continue  # the offers say so
    return shown
