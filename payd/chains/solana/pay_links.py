"""Solana Pay links: what a wallet needs to make the transfer of a payment itself, in one URL.

The wallet names the reference among the transfer's accounts and writes the memo, which bind it to the payment
as what we build does.

Source: DESIGN.md, "10. Live realm"; Solana Pay specification 1.1, "Specification: Transfer Request".
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from payd.chains.solana.binding import memo_of, reference_key, reference_of
from payd.chains.solana.due import Due
from payd.chains.solana.keys import TOKEN
from payd.chains.solana.offers import Offers
from payd.chains.solana.ways import Seen, needs_account, taking_problem
from payd.core.caip import AssetId
from payd.core.money import short_units
from payd.core.option import Offer
from payd.core.payment import Payment

SCHEME: Final = "solana:"
# Of a merchant's name; a code that has to be read by a camera should stay short.
LABEL_CHARS_MAX: Final = 64


async def pay_offer(
    offers: Offers, payment: Payment, asset: AssetId, destination: str, now_ms: int, *, label: str = ""
) -> Offer | None:
    """What whoever follows a link would pay; its one action is `Build` with the link for data.

    Args:
        offers: Of the chain.
        payment: What it is for.
        asset: Of the chain.
        destination: CAIP-10 of the merchant's wallet.
        now_ms: Unix milliseconds.
        label: Who asks, as a wallet shows it; cut to `LABEL_CHARS_MAX`.

    Returns:
        None where there is no such link: for what the merchant cannot be paid in, for a token of the
        Token-2022 program, and for a token account that is not there, which wallets do not create.

    Raises:
        ChainUnavailable: No node answers.
    """

    def link_of(due: Due, seen: Seen) -> str | None:
        if taking_problem(due, seen) is not None or needs_account(due, seen):
            return None
        if due.token is not None and due.token[1] != TOKEN:
            return None
        return write_link(due, label)

    return await offers.by_link(payment, asset, destination, now_ms, link_of)


def write_link(due: Due, label: str) -> str:
    """The URL of a transfer request. The same payment, amount and label give the same one."""
    reference = reference_key(due.payment.id)
    fields = [("amount", short_units(due.amount, due.row.decimals))]
    if due.token is not None:
        fields.append(("spl-token", str(due.token[0])))
    fields.append(("reference", str(reference)))
    if label:
        fields.append(("label", label[:LABEL_CHARS_MAX]))
    fields.append(("memo", memo_of(reference_of(due.payment.id))))
    query = "&".join(f"{name}={quote(text, safe='')}" for name, text in fields)
    return f"{SCHEME}{due.destination}?{query}"
