"""Paying a buyer back: what the merchant's own wallet is to send or to sign, and the record of it.

payd holds no funds: the wallet of the merchant signs, in this browser or elsewhere, and the chain is asked
whether it did. Where wallets sign and leave it to others to send, the server sends what was signed.

Source: DESIGN.md, "11. Pages"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from payd.chains.base import BringsRefunds, Unsigned
from payd.chains.evm.binding import transfer_call
from payd.core.caip import AccountId, parse_account, parse_asset, parse_chain
from payd.core.errors import AlreadyRefunded, InvalidParams, InvalidState, SealBroken
from payd.core.money import asset_amount
from payd.core.payment import Payment
from payd.core.refund import Repayment, repayment_of
from payd.core.status import Status
from payd.store.refunds import is_refunded
from payd.store.sightings import matched_of
from payd.web.call import Answer
from payd.web.dashboard.payment import kept_under, own
from payd.web.dashboard.payments_view import amount_words, reference_of
from payd.web.dashboard.render import SAFE
from payd.web.dashboard.visit import Visit

NATIVE: Final = "slip44"
TOKEN: Final = "erc20"


class WalletCall(msgspec.Struct, frozen=True):
    """What a wallet of the browser is asked to send: `eth_sendTransaction`, numbers in hex."""

    to: str
    value: str
    data: str


async def page(visit: Visit) -> Answer:
    """GET /d/{mode}/payments/{payment}/refund: what to send, to whom, and the form that records it."""
    payment, words = own(visit), visit.realm.words
    # Who paid may be unknown; what was paid back by hand is recorded all the same.
    known = _is_known(payment)
    repayment = repayment_of(payment) if known or payment.status is not Status.SUCCEEDED else None
    shown = repayment and amount_words(asset_amount(repayment.asset, repayment.amount), words)
    recorded = visit.realm.db.point(is_refunded, payment.id)
    # Once something was sent, nothing here sends it again.
    sent = visit.typed("tx") or visit.query("tx")
    sends = repayment is not None and visit.realm.live and not recorded and not sent
    call = wallet_call(repayment) if repayment is not None and sends else None
    signs = sends and repayment is not None and _brings(visit, repayment) is not None
    return visit.page(
        "refund.html",
        reference=reference_of(payment),
        amount=shown or "",
        network="" if repayment is None else _network(visit, repayment),
        to="" if repayment is None else parse_account(repayment.to).address,
        chain="" if repayment is None else repayment.chain,
        call=call,
        asks=call is not None or signs,
        paid=_paid(visit, payment),
        by_hand=sends and call is None and not signs,
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


async def write(visit: Visit) -> Answer:
    """POST /d/{mode}/payments/{payment}/refund/transaction: what a wallet is to sign, as JSON.

    It can land for a minute or two. `sealed` is to come back with what was signed.

    Raises:
        PaydError: The account cannot pay it back, or a refund is recorded already.
    """
    payment = own(visit)
    chain = _bringing(visit, payment)
    assert payment.processing is not None, "what is paid back was paid"
    account = AccountId(parse_chain(payment.processing.chain), visit.typed("account"))
    unsigned = await chain.write_refund(payment, account, visit.realm.clock.now_ms())
    sealed = visit.seal_secret(msgspec.json.encode(unsigned), _subject(payment))
    transaction = base64.b64encode(unsigned.raw).decode()
    return Answer.json({"transaction": transaction, "sealed": sealed.hex()}, headers=SAFE)


async def bring(visit: Visit) -> Answer:
    """POST /d/{mode}/payments/{payment}/refund/send: what was signed goes to the chain; what became of it.

    Asked for again, it is sent again, and lands once.

    Raises:
        PaydError: It is not what this server had the wallet sign, or a refund is recorded already.
    """
    payment = own(visit)
    chain = _bringing(visit, payment)
    try:
        opened = visit.open_secret(bytes.fromhex(visit.typed("sealed")), _subject(payment))
    except (SealBroken, ValueError):
        raise InvalidParams("This is no refund that this server wrote. Begin again.") from None
    unsigned = msgspec.json.decode(opened, type=Unsigned)
    now_ms = visit.realm.clock.now_ms()
    brought = await chain.bring_refund(payment, unsigned, visit.typed("signed"), now_ms)
    return Answer.json({"txId": brought.tx_id, "state": brought.state}, headers=SAFE)


def wallet_call(repayment: Repayment) -> WalletCall | None:
    """What a browser's wallet can send by itself; None on chains where wallets do not."""
    asset, to = parse_asset(repayment.asset), parse_account(repayment.to).address
    if asset.chain.namespace != "eip155":
        return None
    if asset.namespace == NATIVE:
        return WalletCall(to, hex(repayment.amount), "0x")
    if asset.namespace == TOKEN:
        return WalletCall(asset.reference, "0x0", "0x" + transfer_call(to, repayment.amount).hex())
    return None


def _bringing(visit: Visit, payment: Payment) -> BringsRefunds:
    """The chain that a refund is signed for and brought to.

    Raises:
        AlreadyRefunded: One is recorded.
        InvalidState: There wallets send it themselves, or nobody reads that chain any more.
    """
    chain = _brings(visit, repayment_of(payment))
    if chain is None:
        raise InvalidState("This refund is not for this server to send.")
    if visit.realm.db.point(is_refunded, payment.id):
        raise AlreadyRefunded("A refund of this payment is recorded already.")
    return chain


def _brings(visit: Visit, repayment: Repayment) -> BringsRefunds | None:
    chain = visit.realm.payments.chain_of(repayment.chain)
    return chain if isinstance(chain, BringsRefunds) else None


def _subject(payment: Payment) -> str:
    """For what a transaction is sealed: another payment's does not open."""
    return f"refund {payment.id}"


def _paid(visit: Visit, payment: Payment) -> str:
    """The address that the buyer paid to; empty where no transfer shows it."""
    matched = visit.realm.db.point(matched_of, payment.id)
    return parse_account(matched[-1].recipient).address if matched else ""


def _is_known(payment: Payment) -> bool:
    return payment.processing is not None and payment.processing.buyer is not None


def _network(visit: Visit, repayment: Repayment) -> str:
    return visit.realm.words.display(f"caip19/{repayment.asset}").network_name or repayment.chain
