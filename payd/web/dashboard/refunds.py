"""Paying a buyer back: what the merchant's own wallet is to send, and the record of it.

payd holds no funds: the wallet of the merchant signs, in this browser or elsewhere, and the chain is asked
whether it did.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from payd.chains.evm.binding import transfer_call
from payd.core.caip import parse_account, parse_asset
from payd.core.money import asset_amount
from payd.core.payment import Payment
from payd.core.refund import Repayment, repayment_of
from payd.core.status import Status
from payd.store.refunds import is_refunded
from payd.web.call import Answer
from payd.web.dashboard.payment import kept_under, own
from payd.web.dashboard.payments import words_of
from payd.web.dashboard.payments_view import amount_words
from payd.web.dashboard.visit import Visit

NATIVE: Final = "slip44"
TOKEN: Final = "erc20"


@dataclass(frozen=True, slots=True)
class WalletCall:
    """What a wallet of the browser is asked to send: `eth_sendTransaction` on a chain, numbers in hex."""

    chain: str
    to: str
    value: str
    data: str


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/payments/{payment}/refund: what to send, to whom, and the form that records it."""
    payment, words = own(visit), words_of(visit)
    # Who paid may be unknown; what was paid back by hand is recorded all the same.
    known = _is_known(payment)
    repayment = repayment_of(payment) if known or payment.status is not Status.SUCCEEDED else None
    shown = repayment and amount_words(asset_amount(repayment.asset, repayment.amount), words)
    recorded = visit.realm.db.point(is_refunded, payment.id)
    # Once something was sent, nothing here sends it again.
    sent = visit.typed("tx") or visit.query("tx")
    sends = repayment is not None and visit.realm.live and not recorded and not sent
    wallet = wallet_call(repayment) if repayment is not None and sends else None
    return visit.page(
        "refund.html",
        reference=payment.reference_id,
        amount=shown or "",
        network="" if repayment is None else _network(visit, repayment),
        to="" if repayment is None else parse_account(repayment.to).address,
        wallet=wallet,
        by_hand=sends and wallet is None,
        recorded=recorded,
        key=kept_under(payment),
        tx=sent,
        live=visit.realm.live,
        here=visit.to(f"payments/{payment.id}/refund"),
        back=visit.to(f"payments/{payment.id}"),
    )


async def record(visit: Visit) -> Answer:
    """POST /d/{mode}/payments/{payment}/refund: recorded, once its chain shows it.

    Raises:
        PaydError: The transaction pays nothing back, or a refund is recorded already.
    """
    payment = own(visit)
    body: dict[str, Any] = {
        "paymentId": payment.id,
        "txId": visit.typed("tx") or None,
        "note": visit.typed("note") or None,
    }
    await visit.ask("POST", "/v1/refunds", body, merchant_id=payment.merchant_id)
    return visit.redirect(f"payments/{payment.id}", "The refund is recorded.")


def wallet_call(repayment: Repayment) -> WalletCall | None:
    """What a browser's wallet can send by itself; None on chains where that takes more than one call."""
    asset, to = parse_asset(repayment.asset), parse_account(repayment.to).address
    if asset.chain.namespace != "eip155":
        return None
    chain = hex(int(asset.chain.reference))
    if asset.namespace == NATIVE:
        return WalletCall(chain, to, hex(repayment.amount), "0x")
    if asset.namespace == TOKEN:
        return WalletCall(chain, asset.reference, "0x0", "0x" + transfer_call(to, repayment.amount).hex())
    return None


def _is_known(payment: Payment) -> bool:
    return payment.processing is not None and payment.processing.buyer is not None


def _network(visit: Visit, repayment: Repayment) -> str:
    return words_of(visit).display(f"caip19/{repayment.asset}").network_name or repayment.chain
