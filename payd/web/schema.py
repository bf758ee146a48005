"""Wire shapes of the REST API: what comes in, checked; what goes out, camelCase.

Decimal strings live here and in events only; inside, amounts are integers in minor units.

Source: SPEC.md, "Resources and their fields"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

import msgspec

from payd.chains.assets import AssetBook, shipped_book
from payd.chains.base import Chain
from payd.core.caip import canonical_chain, parse_asset
from payd.core.collect import Answered
from payd.core.event import iso_ms
from payd.core.money import AmountWire, exponent
from payd.core.option import Display
from payd.core.payment import Payment
from payd.core.settlement_change import SettlementChange
from payd.core.status import FINAL, Status
from payd.store.settlements import Settlement
from payd.store.transfers import Transfer

POLL_IN_MS = 1000
"""How long a client should wait before it asks for the status again."""


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    pass


class Amount(_Wire, frozen=True):
    """An amount with the words to show it."""

    unit: str
    value: str
    display: Display


class AmountIn(_Wire, frozen=True):
    """What is asked for, in a currency."""

    unit: str
    value: str


class CheckoutIn(_Wire, frozen=True):
    """Where the buyer goes back to, with `payment_id` added to the query.

    Both must be https URLs; otherwise there is no way back at all.
    """

    success_url: str | None = None
    error_url: str | None = None


class CreatePayment(_Wire, frozen=True):
    """A payment that a merchant asks for; `expiresAt` in Unix seconds, at most 24 hours ahead."""

    reference_id: str
    amount: AmountIn
    checkout: CheckoutIn | None = None
    expires_at: int | None = None


class PaymentCreated(_Wire, frozen=True):
    """A new payment; send the buyer to `gatewayUrl`."""

    payment_id: str
    gateway_url: str
    status: str
    expires_at: int
    is_final: bool
    poll_in_ms: int


class PaymentCreatedBoth(PaymentCreated, frozen=True):
    """A new payment; `id` is `paymentId`, `url` is `gatewayUrl`."""

    id: str
    url: str


class PaidInfo(_Wire, frozen=True):
    """How a succeeded payment was paid."""

    tx_id: str | None
    option_amount: Amount


class PaymentStatus(_Wire, frozen=True):
    """Where a payment stands; `pollInMs` is null and `info` is there once that is final."""

    status: str
    is_final: bool
    poll_in_ms: int | None
    info: PaidInfo | None


class MerchantPaymentStatus(_Wire, frozen=True):
    """Where a payment stands, in the older words."""

    status: str
    is_final: bool


class SettlementState(_Wire, frozen=True):
    """Whether the merchant has the funds for good."""

    settled: bool
    amount: Amount | None
    tx_hash: str | None


class TransferOut(_Wire, frozen=True):
    """A transfer that a chain showed.

    `onChain` is false once a reorg took it; `blockNumber` is null in test mode, which has no blocks.
    """

    tx_id: str
    chain: str
    amount: Amount
    sender: str = msgspec.field(name="from")
    recipient: str = msgspec.field(name="to")
    kind: str
    matched: bool
    payment_id: str | None
    seen_at: str
    block_number: int | None
    on_chain: bool


class PaymentDetail(_Wire, frozen=True):
    """A payment."""

    payment_id: str
    merchant_id: str
    status: str
    is_final: bool
    poll_in_ms: int | None
    reference_id: str
    amount: Amount
    created_at: str
    expires_at: int
    last_updated_at: str
    info: PaidInfo | None
    failure_code: str | None
    failure_reason: str | None
    cancellation_reason: str | None
    settlement: SettlementState | None
    transfers: list[TransferOut]


class CollectedOut(_Wire, frozen=True):
    """What the buyer answered; `fields` null where the seal key is not the one that it was sealed with."""

    fields: list[Answered] | None
    collected_at: str


class RefundOut(_Wire, frozen=True):
    """A refund as it was recorded, by a request or in the dashboard; without `txId` nobody looked for it."""

    tx_id: str | None
    note: str | None
    recorded_at: str


class PaymentRead(PaymentDetail, frozen=True):
    """A payment with what only its merchant sees."""

    collected_data: CollectedOut | None
    refund: RefundOut | None


class MerchantBrief(_Wire, frozen=True):
    """Whose payment it is."""

    id: str
    name: str | None
    icon_url: str | None


class BuyerOut(_Wire, frozen=True):
    """Who pays."""

    account_caip10: str = msgspec.field(name="accountCaip10")


class TransactionOut(_Wire, frozen=True):
    """What pays it; `hash` null until it is there."""

    network_id: str
    hash: str | None


class FeesOut(_Wire, frozen=True):
    """What is kept of the payment."""

    total: Amount


class PaymentItem(_Wire, frozen=True):
    """A payment in a list."""

    payment_id: str
    merchant: MerchantBrief
    reference_id: str
    status: str
    is_terminal: bool
    created_at: str
    last_updated_at: str
    fiat_amount: Amount
    token_amount: Amount | None
    buyer: BuyerOut | None
    transaction: TransactionOut | None
    fees: FeesOut | None
    settlement: SettlementState | None
    settled_at: str | None


class PaymentPage(_Wire, frozen=True):
    """In the order that was asked for."""

    data: list[PaymentItem]
    next_cursor: str | None


class TransferPage(_Wire, frozen=True):
    """Newest first."""

    data: list[TransferOut]
    next_cursor: str | None


class PaymentCancelledOut(_Wire, frozen=True):
    """A cancelled payment."""

    payment_id: str
    status: str
    cancelled_reason: str
    cancelled_at: str


class Deleted(_Wire, frozen=True):
    """What was deleted."""

    id: str
    deleted: bool = True


class PendingChangeOut(_Wire, frozen=True):
    """Where the money is to go, and from when on."""

    destination: str
    requested_at: str
    applies_at: str


class SettlementOut(_Wire, frozen=True):
    """Where what is paid in an asset goes; `pending` is there while a change of it is held back."""

    id: str
    asset: str
    destination: str
    pending: PendingChangeOut | msgspec.UnsetType = msgspec.UNSET


def settlement_out(settlement: Settlement, change: SettlementChange | None = None) -> SettlementOut:
    """A settlement as it was sent, with the change of it that waits."""
    shown = SettlementOut(settlement.id, settlement.asset, settlement.destination)
    if change is None:
        return shown
    pending = PendingChangeOut(change.destination, iso_ms(change.asked_at_ms), iso_ms(change.due_at_ms))
    return msgspec.structs.replace(shown, pending=pending)


class Words:
    """Shows amounts of a realm: it knows the realm's chains, and by its book what others had."""

    def __init__(self, chains: tuple[Chain, ...], book: AssetBook | None = None) -> None:
        self._chains = chains
        self._book = book or shipped_book()

    def amount(self, amount: AmountWire) -> Amount:
        """An amount with its display, fiat or on-chain."""
        return Amount(amount.unit, amount.value, self.display(amount.unit))

    def display(self, unit: str) -> Display:
        """How amounts of a unit are shown; one that nobody knows is shown by its own name, in minor units.

        What was paid on a chain that is no longer configured is known all the same.
        """
        if (known := self.known(unit)) is not None:
            return known
        name = unit.partition("/")[2]
        return Display(asset_symbol=parse_asset(name).reference[:12], asset_name=name, decimals=0)

    def known(self, unit: str) -> Display | None:
        """As `display`; None of an asset that nobody knows, as of one that was taken out of payd.toml."""
        kind, _, name = unit.partition("/")
        if kind == "iso4217":
            return Display(asset_symbol=name, asset_name=name, decimals=exponent(name))
        asset = parse_asset(name)
        chain = next((one for one in self._chains if one.serves(str(canonical_chain(asset.chain)))), None)
        return self._book.display(asset) if chain is None else chain.display(asset)

    def info(self, payment: Payment) -> PaidInfo | None:
        """How a succeeded payment was paid."""
        if payment.success is None or payment.processing is None:
            return None
        return PaidInfo(payment.success.tx_id, self.amount(payment.processing.option_amount))

    def settlement(self, payment: Payment) -> SettlementState | None:
        """Whether the merchant has the funds for good; None before the payment succeeded."""
        if payment.status is not Status.SUCCEEDED:
            return None
        if payment.settled is None:
            return SettlementState(settled=False, amount=None, tx_hash=None)
        return SettlementState(True, self.amount(payment.settled.amount), payment.settled.tx_id)

    def transfer(self, transfer: Transfer) -> TransferOut:
        """A transfer that a chain showed."""
        return TransferOut(
            tx_id=transfer.tx_id,
            chain=transfer.chain,
            amount=self.amount(AmountWire(f"caip19/{transfer.asset}", transfer.value)),
            sender=transfer.sender,
            recipient=transfer.recipient,
            kind=transfer.kind,
            matched=transfer.kind == "matched",
            payment_id=transfer.payment_id,
            seen_at=iso_ms(transfer.seen_at_ms),
            block_number=transfer.block_number,
            on_chain=transfer.is_on_chain,
        )

    def detail(self, payment: Payment, transfers: list[Transfer]) -> PaymentDetail:
        """`GET /v1/payments/{id}`."""
        return PaymentDetail(
            payment_id=payment.id,
            merchant_id=payment.merchant_id,
            status=payment.status.value,
            is_final=payment.is_final,
            poll_in_ms=poll_in_ms(payment),
            reference_id=payment.reference_id,
            amount=self.amount(payment.amount),
            created_at=iso_ms(payment.created_at_ms),
            expires_at=payment.expires_at_ms // 1000,
            last_updated_at=iso_ms(payment.updated_at_ms),
            info=self.info(payment),
            failure_code=payment.failed.code if payment.failed else None,
            failure_reason=payment.failed.reason if payment.failed else None,
            cancellation_reason=payment.cancelled.reason if payment.cancelled else None,
            settlement=self.settlement(payment),
            transfers=[self.transfer(one) for one in transfers],
        )

    def item(self, payment: Payment, merchant: tuple[str, str | None] | None) -> PaymentItem:
        """One row of `GET /v1/payments`."""
        processing = payment.processing
        name, icon_url = merchant or (None, None)
        return PaymentItem(
            payment_id=payment.id,
            merchant=MerchantBrief(payment.merchant_id, name, icon_url),
            reference_id=payment.reference_id,
            status=payment.status.value,
            is_terminal=payment.is_final,
            created_at=iso_ms(payment.created_at_ms),
            last_updated_at=iso_ms(payment.updated_at_ms),
            fiat_amount=self.amount(payment.amount),
            token_amount=self.amount(processing.option_amount) if processing else None,
            buyer=BuyerOut(processing.buyer) if processing and processing.buyer else None,
            transaction=_transaction(payment),
            fees=FeesOut(self.amount(processing.fee.total_amount)) if processing and processing.fee else None,
            settlement=self.settlement(payment),
            settled_at=iso_ms(payment.settled.settled_at_ms) if payment.settled else None,
        )


def poll_in_ms(payment: Payment) -> int | None:
    """When to ask again; None once final."""
    return None if payment.status in FINAL else POLL_IN_MS


def cancelled_body(_: object, payment: Payment) -> bytes:
    """The answer to a cancel, of a merchant or of a buyer."""
    assert payment.cancelled is not None
    cancelled = payment.cancelled
    return msgspec.json.encode(
        PaymentCancelledOut(
            payment.id, payment.status.value, cancelled.reason, iso_ms(cancelled.cancelled_at_ms)
        )
    )


def _transaction(payment: Payment) -> TransactionOut | None:
    if payment.processing is None:
        return None
    return TransactionOut(payment.processing.chain, payment.success.tx_id if payment.success else None)


class BuyerPage(_Wire, frozen=True):
    """The buyer's feed: safe for anyone who holds the link."""

    version: int
    status: str
    is_final: bool
    poll_in_ms: int | None
    expires_at: int
    server_time: int
    info: PaidInfo | None


def buyer_page(payment: Payment, words: Words, now_ms: int) -> BuyerPage:
    """What the payment feed sends. `serverTime` is Unix milliseconds in the realm's time."""
    return BuyerPage(
        version=payment.version,
        status=payment.status.value,
        is_final=payment.is_final,
        poll_in_ms=poll_in_ms(payment),
        expires_at=payment.expires_at_ms // 1000,
        server_time=now_ms,
        info=words.info(payment),
    )
