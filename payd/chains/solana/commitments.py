"""What is stored when a buyer's funds are committed on Solana, by whatever showed it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from payd.chains.assets import AssetBook
from payd.chains.defaults import Depth
from payd.chains.depth import depth_of_quote
from payd.chains.fee_terms import signed_fee
from payd.chains.following import commitment, recipient_of
from payd.chains.market.prices import Prices
from payd.chains.solana.binding import reference_of
from payd.chains.solana.terms import Commitment, Terms
from payd.chains.solana.track import Track
from payd.core.caip import canonical_asset, parse_asset
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

    async def made(
        self,
        payment: Payment,
        quote: Quote,
        tx_id: str,
        valid_until_height: int,
        now_ms: int,
        *,
        buyer: str | None = None,
        assigned: bool = False,
    ) -> Processing:
        """The commitment of a buyer whose transaction is known.

        Args:
            payment: What is paid.
            quote: What the transaction pays, with the operator's part where it has that.
            tx_id: The transaction.
            valid_until_height: The last block height at which it can land.
            now_ms: Unix milliseconds.
            buyer: CAIP-10 of who pays; None: the account that was asked.
            assigned: The merchant named the transaction.

        Raises:
            ChainUnavailable: No node answers a feed's question.
        """
        depth = await depth_of_quote(self._terms.depth, self._prices, self._book, payment, quote, now_ms)
        track = Track(
            asset=canonical_asset(parse_asset(quote.asset)),
            recipient=recipient_of(quote),
            value=str(quote.settlement_value),
            reference=reference_of(payment.id),
            depth=to_commitment(depth),
            tx_id=tx_id,
            valid_until_height=valid_until_height,
            assigned=assigned,
        )
        fee = signed_fee(quote, quote.amount - quote.settlement_value, self._terms.fee)
        return commitment(quote, track, now_ms, buyer=buyer or quote.account, fee=fee)


def to_commitment(depth: Depth) -> Commitment:
    """The commitment that a configured depth means; of what this chain does not have, the later one."""
    return "confirmed" if depth == "confirmed" else "finalized"
