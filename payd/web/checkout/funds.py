"""What the page is told of the accounts of a connected wallet: what each has of what the shop takes.

The server reads it, not the wallet: a wallet shows one network at a time, and knows no price. It says no more
than any node does. What the options have just asked for is not asked for again; who asks for more is limited.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import msgspec

from payd.actors.funds import Shown, show_funds
from payd.core.money import AmountWire
from payd.web.accounts import accounts_in
from payd.web.call import Answer, Call
from payd.web.checkout.render import SAFE
from payd.web.client import rate_key
from payd.web.form import check_same_origin
from payd.web.limits import refuse_for
from payd.web.lookup import linked_payment
from payd.web.schema import Amount, Words


class FundsOut(msgspec.Struct, frozen=True):
    """One asset and one account: what is asked, what is there, what sending takes, and coins for that."""

    account: str
    amount: Amount
    has: Amount
    fee: Amount
    coins: Amount


async def read(call: Call) -> Answer:
    """POST /pay/{id}/funds {accounts}: what these have, for a page that says why something is not offered."""
    realm, payment = linked_payment(call)
    check_same_origin(call.request, call.house.base_url)
    refuse_for(call.house.limits.sign_requests.take(rate_key(call.request.client_ip)))
    words = realm.words
    shown = await show_funds(realm.payments, payment.id, accounts_in(call))
    return Answer.json({"funds": [_out(words, one) for one in shown]}, headers=SAFE)


def about(value: int) -> int:
    """The value rounded up to two digits: what nobody knows exactly is not shown as if somebody did."""
    step: int = 10 ** max(0, len(str(value)) - 2)
    return -(-value // step) * step


def _out(words: Words, one: Shown) -> FundsOut:
    def amount(asset: str, value: int) -> Amount:
        return words.amount(AmountWire(f"caip19/{asset}", str(value)))

    funds = one.funds
    return FundsOut(
        account=str(one.account),
        amount=amount(one.asset, funds.amount),
        has=amount(one.asset, funds.has),
        fee=amount(funds.coin, about(funds.fee)),
        coins=amount(funds.coin, funds.coins),
    )
