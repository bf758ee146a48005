"""What is stored when a buyer's funds are committed on an EVM chain, by whatever showed it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence

from payd.chains.assets import AssetBook
from payd.chains.defaults import Depth
from payd.chains.depth import depth_of_quote
from payd.chains.evm.authorization import Authorization
from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.chains.evm.terms import Terms
from payd.chains.evm.track import Told, Track
from payd.chains.fee_terms import signed_fee
from payd.chains.following import commitment, recipient_of
from payd.chains.market.prices import Prices
from payd.core.caip import ChainId, canonical_asset, parse_asset
from payd.core.option import Quote
from payd.core.payment import Payment, Processing


class Commitments:
    """Makes the commitments of one chain.

    Args:
        terms: What the operator set.
        book: Its assets.
        prices: For what a payment is worth.
    """

    def __init__(self, terms: Terms, book: AssetBook, prices: Prices) -> None:
        self._terms = terms
        self._book = book
        self._prices = prices

    @property
    def chain(self) -> ChainId:
        """Canonical."""
        return self._terms.chain

    def asset_key(self, quote: Quote) -> str:
        """The canonical CAIP-19 of what is paid in."""
        return canonical_asset(parse_asset(quote.asset))

    async def signed(
        self,
        payment: Payment,
        quote: Quote,
        legs: Sequence[Authorization],
        now_ms: int,
        *,
        buyer: str | None = None,
    ) -> Processing:
        """The commitment of a buyer who signed authorizations, the merchant's first.

        Args:
            payment: What is paid.
            quote: What was signed.
            legs: The authorizations.
            now_ms: Unix milliseconds.
            buyer: CAIP-10 of who pays; None: the account that was asked.

        Raises:
            ChainUnavailable: No node answers a feed's question.
        """
        main, *others = legs
        track = Track(
            asset=self.asset_key(quote),
            recipient=recipient_of(quote),
            value=str(main.value),
            bindings=_bindings(payment),
            depth=await self._depth(payment, quote, now_ms),
            token=main.domain.token,
            nonce=main.nonce,
            valid_until_s=main.valid_before_s,
        )
        fee = signed_fee(quote, sum(leg.value for leg in others), self._terms.fee)
        return commitment(quote, track, now_ms, buyer=buyer or quote.account, fee=fee)

    async def sent(
        self, payment: Payment, quote: Quote, told: Told, now_ms: int, *, buyer: str | None = None
    ) -> Processing:
        """The commitment of a buyer who sent a transfer.

        Args:
            payment: What is paid.
            quote: What was asked for.
            told: The transaction.
            now_ms: Unix milliseconds.
            buyer: CAIP-10 of who pays; None: the account that was asked.

        Raises:
            ChainUnavailable: No node answers a feed's question.
        """
        track = Track(
            asset=self.asset_key(quote),
            recipient=recipient_of(quote),
            value=str(quote.amount),
            bindings=_bindings(payment),
            depth=await self._depth(payment, quote, now_ms),
            told=told,
        )
        return commitment(quote, track, now_ms, buyer=buyer or quote.account)

    async def _depth(self, payment: Payment, quote: Quote, now_ms: int) -> Depth:
        return await depth_of_quote(self._terms.depth, self._prices, self._book, payment, quote, now_ms)


def _bindings(payment: Payment) -> tuple[bytes, ...]:
    """Whatever may carry the transfer in the end: what was signed, or a transaction that was sent instead."""
    return authorization_nonce(payment.id), payment_tag(payment.id)
