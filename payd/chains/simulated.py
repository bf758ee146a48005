"""The test realm's chain: it serves every network, confirms and settles by the clock, and moves no funds.

Buyer accounts with small numbers choose another outcome. `n` is the last byte of an otherwise zero address:
an EVM address `0x000…000n`, or on Solana 31 zero bytes and `n`.

    1  approves, whatever the wallet hands back
    2  its signature is refused; the payment stays open
    3  has no options
    4  stays processing until somebody moves it, or expires 15 minutes after the payment's `expiresAt`
    5  settles a minute late
    6  approves, as 1 does, once the buyer's details are there: it is asked for some even by a merchant that
       asks for nothing

The results of all other accounts are checked for their shape.

Source: DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Final

import base58
import msgspec

from payd.chains.assets import display_of, find_asset, find_network
from payd.chains.base import Accepted, Ask, Found, Misaligned, Refused, Resolved, SeenTransfer, Verdict
from payd.chains.rates import RateTable
from payd.chains.simulated_actions import (
    UNKNOWN_DECIMALS,
    Transfer,
    actions_for,
    executed_actions,
    resolve_build,
)
from payd.chains.simulated_results import decode_results, fits
from payd.chains.simulated_solana import KEY_BYTES
from payd.core.caip import AccountId, AssetId, ChainId, canonical_chain, parse_account, parse_asset
from payd.core.collect import Field
from payd.core.errors import InvalidParams, InvalidSignature
from payd.core.money import ASSET_PREFIX, Rate, asset_amount, convert_up, exponent
from payd.core.option import Build, Display, Offer, Quote, Result, alignment
from payd.core.payment import Payment, Processing, SettlementCompleted, TransferConfirmed, WindowClosed
from payd.core.status import Status

# How long a rate of a volatile asset holds.
QUOTE_LIFETIME_MS: Final = 10 * 60_000

# How long after its window a payment may wait for a person to move it.
HOLD_GRACE_MS: Final = 15 * 60_000

LATE_SETTLEMENT_MS: Final = 60_000

# One of each kind, and one that may be left out.
TEST_FIELDS: Final = (
    Field("fullName", "text", "Full name"),
    Field("dob", "date", "Date of birth"),
    Field("porAddress", "text", "Address", required=False),
    Field("tosConfirmed", "checkbox", "I have read the terms of this test"),
)

_SYMBOL_DIGITS: Final = 6
_EVM_ADDRESS_BYTES: Final = 20


class Magic(enum.IntEnum):
    """The buyer accounts that choose an outcome."""

    APPROVES = 1
    REFUSED = 2
    NO_OPTIONS = 3
    HELD = 4
    SETTLES_LATE = 5
    DATA_COLLECTION = 6


class Track(msgspec.Struct, frozen=True, array_like=True):
    """What is noted in a processing block.

    Attributes:
        confirm_at_ms: When the transfer is deep enough; None when only a person moves it.
        give_up_at_ms: When nothing can land any more; None when it is sure to.
        settle_after_ms: From success to settlement.
        recipient: CAIP-10 of who is paid.
    """

    confirm_at_ms: int | None
    give_up_at_ms: int | None
    settle_after_ms: int
    recipient: str


_EVM_ADDRESSES: Final = {magic: "0x" + magic.to_bytes(_EVM_ADDRESS_BYTES, "big").hex() for magic in Magic}
_SOLANA_ADDRESSES: Final = {
    magic: base58.b58encode(magic.to_bytes(KEY_BYTES, "big")).decode() for magic in Magic
}
_BY_ADDRESS: Final = {
    address: magic
    for addresses in (_EVM_ADDRESSES, _SOLANA_ADDRESSES)
    for magic, address in addresses.items()
}


def magic_account(chain: ChainId, magic: Magic) -> AccountId:
    """The account on `chain` that chooses this outcome; chains that are not of Solana use the EVM address."""
    on_solana = canonical_chain(chain).namespace == "solana"
    return AccountId(chain, (_SOLANA_ADDRESSES if on_solana else _EVM_ADDRESSES)[magic])


def magic_of(account: AccountId) -> Magic | None:
    """Which outcome the account chooses; None when it is an account like any other."""
    return _BY_ADDRESS.get(account.address)


# A transaction hash of an EVM chain, a signature of Solana in base58, or one made up for a test.
_TX_ID: Final = re.compile(r"0x[0-9a-fA-F]{64}|[1-9A-HJ-NP-Za-km-z]{64,88}|test:[!-~]{1,100}")


class SimulatedChain:
    """Every network of the test realm.

    Args:
        confirm_after_ms: From the buyer's commitment to success.
        settle_after_ms: From success to settlement.
        rates: What amounts are quoted at.
    """

    has_nodes = False

    def __init__(self, confirm_after_ms: int, settle_after_ms: int, rates: RateTable) -> None:
        self._confirm_after_ms = confirm_after_ms
        self._settle_after_ms = settle_after_ms
        self._rates = rates

    def fields_of(self, account: AccountId) -> tuple[Field, ...]:
        """Something for the account that is there to try it with; nothing for all others."""
        return TEST_FIELDS if magic_of(account) is Magic.DATA_COLLECTION else ()

    def serves(self, chain: str) -> bool:
        """Always: a test may use any CAIP-2 chain."""
        return True

    def display(self, asset: AssetId) -> Display:
        """How amounts of the asset are shown; an asset that payd does not know gets a name all the same."""
        symbol = asset.reference.removeprefix("0x").replace("-", "")[:_SYMBOL_DIGITS].upper()
        unknown = Display(f"T{symbol}", "Test asset", UNKNOWN_DECIMALS, network_name=find_network(asset))
        return display_of(asset) or unknown

    async def rate(self, currency: str, asset: AssetId, now_ms: int) -> Rate:
        """The table's."""
        return self._rates.rate(currency, find_asset(asset))

    async def read_ahead(self, payment: Payment, asks: Sequence[Ask], now_ms: int) -> None:
        """Nothing: there is nobody to ask."""

    async def offer(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Offer | None:
        """What the account would pay in the asset now.

        Args:
            payment: What is to be paid.
            asset: One that the merchant takes.
            account: The buyer's.
            destination: CAIP-10 of who is paid.
            now_ms: Unix milliseconds of the realm.

        Returns:
            None when the account is on another chain or is the one without options, when the window has
            closed, or when the amount does not fit the chain's numbers.
        """
        other_chain = canonical_chain(account.chain) != canonical_chain(asset.chain)
        if other_chain or magic_of(account) is Magic.NO_OPTIONS or now_ms >= payment.expires_at_ms:
            return None
        amount = self._price(payment, asset)
        actions = actions_for(Transfer(payment, asset, account, parse_account(destination), amount))
        if actions is None:
            return None
        return Offer(
            asset=str(asset),
            account=str(account),
            amount=amount,
            actions=actions,
            eta_s=-(-self._confirm_after_ms // 1000),
            valid_until_ms=_valid_until_ms(payment, asset, now_ms),
        )

    async def resolve(self, payment: Payment, quote: Quote, data: str, now_ms: int) -> Resolved:
        """The calls behind a build action.

        Raises:
            InvalidParams: `data` is not that of a build action of this quote.
        """
        if not any(isinstance(action, Build) for action in quote.actions):
            raise InvalidParams("The option has no build action: its actions can be executed as they are.")
        return Resolved(resolve_build(_transfer(payment, quote), data))

    async def check(self, payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        """Whether results pay the quote, by their number, order and shape; and by the buyer's account."""
        actions = executed_actions(_transfer(payment, quote), quote.actions)
        if len(results) != len(actions):
            return Misaligned()
        try:
            data = decode_results(actions, results)
        except InvalidParams as refusal:
            return Refused(refusal)
        magic = magic_of(parse_account(quote.account))
        if magic is Magic.REFUSED:
            return _refused_signature()
        match alignment([[fits(action, each) for each in data] for action in actions]):
            case "misaligned":
                return Misaligned()
            case "refused" if magic is None:
                return _refused_signature()
        return Accepted(self._processing(payment, quote, magic, now_ms))

    async def destination_problem(self, asset: AssetId, destination: AccountId) -> str | None:
        """Nothing: every well-formed destination works."""
        return None

    def read_until_ms(self, chain: str) -> int | None:
        """Always up to now: what happens here happens by results alone."""
        return None

    def due_at_ms(self, payment: Payment) -> int | None:
        """When the payment confirms, is given up or settles, by its notes; None when nothing is to come."""
        if payment.processing is None or payment.settled is not None:
            return None
        track = _track(payment.processing)
        if payment.status is Status.PROCESSING:
            return track.give_up_at_ms if track.confirm_at_ms is None else track.confirm_at_ms
        if payment.status is Status.SUCCEEDED and payment.success is not None:
            return payment.success.succeeded_at_ms + track.settle_after_ms
        return None

    async def look(self, payment: Payment, now_ms: int) -> Found | None:
        """What is due by now; None when nothing is. Never early."""
        due_at_ms = self.due_at_ms(payment)
        if due_at_ms is None or now_ms < due_at_ms:
            return None
        assert payment.processing is not None
        if payment.status is Status.SUCCEEDED:
            return Found(SettlementCompleted(_tx_id(payment)))
        if _track(payment.processing).confirm_at_ms is None:
            return Found(WindowClosed())
        return Found(TransferConfirmed(_tx_id(payment)), self.transfers(payment))

    async def refund_problem(self, payment: Payment, tx_id: str) -> str | None:
        """A merchant's own wallet is not simulated, so a transaction id only has to look like one."""
        if _TX_ID.fullmatch(tx_id):
            return None
        return "txId is no transaction id: 0x and 64 hex digits, a Solana signature, or test: and anything"

    def hold(self, payment: Payment, processing: Processing) -> Processing:
        """The same commitment, waiting for a person; given up 15 minutes after the payment's window."""
        track = msgspec.structs.replace(
            _track(processing), confirm_at_ms=None, give_up_at_ms=payment.expires_at_ms + HOLD_GRACE_MS
        )
        return msgspec.structs.replace(processing, track=msgspec.msgpack.encode(track))

    def simulated_processing(self, payment: Payment, asset: str, destination: str, now_ms: int) -> Processing:
        """A commitment without a wallet, as if the account that approves had paid.

        Args:
            payment: What is paid.
            asset: CAIP-19 of one that the merchant takes.
            destination: CAIP-10 of who is paid.
            now_ms: Unix milliseconds of the realm.
        """
        parsed = parse_asset(asset)
        quote = Quote(
            option_id="",
            payment_id=payment.id,
            asset=asset,
            account=str(magic_account(parsed.chain, Magic.APPROVES)),
            amount=self._price(payment, parsed),
            destination=destination,
            actions=(),
            valid_from_ms=now_ms,
            valid_until_ms=now_ms,
        )
        return self._processing(payment, quote, Magic.APPROVES, now_ms)

    def transfers(self, payment: Payment) -> tuple[SeenTransfer, ...]:
        """What this chain shows once the transfer is confirmed; nothing before funds are committed."""
        processing = payment.processing
        if processing is None:
            return ()
        assert processing.buyer is not None
        transfer = SeenTransfer(
            chain=processing.chain,
            tx_id=_tx_id(payment),
            log_index=0,
            asset=processing.settlement_amount.unit.removeprefix(ASSET_PREFIX),
            value=int(processing.settlement_amount.value),
            sender=processing.buyer,
            recipient=_track(processing).recipient,
        )
        return (transfer,)

    def _price(self, payment: Payment, asset: AssetId) -> int:
        rate = self._rates.rate(payment.currency, find_asset(asset))
        return convert_up(payment.value, exponent(payment.currency), rate, self.display(asset).decimals)

    def _processing(self, payment: Payment, quote: Quote, magic: Magic | None, now_ms: int) -> Processing:
        held = magic is Magic.HELD
        late_ms = LATE_SETTLEMENT_MS if magic is Magic.SETTLES_LATE else 0
        track = Track(
            confirm_at_ms=None if held else now_ms + self._confirm_after_ms,
            give_up_at_ms=payment.expires_at_ms + HOLD_GRACE_MS if held else None,
            settle_after_ms=self._settle_after_ms + late_ms,
            recipient=quote.destination,
        )
        paid = asset_amount(quote.asset, quote.amount)
        return Processing(
            processing_at_ms=now_ms,
            option_amount=paid,
            settlement_amount=paid,
            buyer=quote.account,
            chain=str(canonical_chain(parse_asset(quote.asset).chain)),
            fee=None,
            track=msgspec.msgpack.encode(track),
        )


def _valid_until_ms(payment: Payment, asset: AssetId, now_ms: int) -> int:
    known = find_asset(asset)
    if known is not None and known.par == payment.currency:
        return payment.expires_at_ms
    return min(now_ms + QUOTE_LIFETIME_MS, payment.expires_at_ms)


def _transfer(payment: Payment, quote: Quote) -> Transfer:
    return Transfer(
        payment=payment,
        asset=parse_asset(quote.asset),
        buyer=parse_account(quote.account),
        destination=parse_account(quote.destination),
        amount=quote.amount,
    )


def _refused_signature() -> Refused:
    return Refused(
        InvalidSignature("The wallet's signature does not verify. Sign again; the payment is still open.")
    )


def _track(processing: Processing) -> Track:
    return msgspec.msgpack.decode(processing.track, type=Track)


def _tx_id(payment: Payment) -> str:
    return f"test:{payment.id}"
