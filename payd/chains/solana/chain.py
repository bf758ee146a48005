"""One Solana chain with real funds: what the `Chain` of the test realm plays, on nodes that are not trusted.

The rooms: `offers.py` and `ways.py` ask, `resolve.py` makes what wallets sign, and `checks.py` checks what
they hand back. `look.py` follows what the watcher found; `evidence.py` proves it, and `ending.py` ends what
never came. `pay_back.py` makes what merchants sign for a refund, and `refund.py` proves it.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence

from solders.pubkey import Pubkey

from payd.chains.assets import AssetBook
from payd.chains.base import Ask, Brought, Found, Resolved, Unsigned, Verdict
from payd.chains.market.prices import Prices
from payd.chains.rpc import Rpc
from payd.chains.solana.budget import Budget
from payd.chains.solana.checks import Checks
from payd.chains.solana.commitments import Commitments
from payd.chains.solana.destination import destination_problem
from payd.chains.solana.ending import Endings
from payd.chains.solana.evidence import Evidence
from payd.chains.solana.facts import Facts
from payd.chains.solana.fee_payer import FeePayer
from payd.chains.solana.look import Looks
from payd.chains.solana.offers import CanSponsor, Offers
from payd.chains.solana.pay_back import PayBack
from payd.chains.solana.pay_links import pay_offer
from payd.chains.solana.refund import refund_problem
from payd.chains.solana.resolve import Resolver
from payd.chains.solana.terms import Terms
from payd.core.caip import AccountId, AssetId, canonical_chain
from payd.core.money import Rate
from payd.core.option import Display, Offer, Quote, Result
from payd.core.payment import Payment
from payd.store.chain_cursors import find_cursor
from payd.store.db import Database


class SolanaChain:
    """One chain of the `solana` namespace.

    Args:
        terms: What the operator set for it.
        rpc: Its nodes; closed by whoever opened them.
        db: The realm's store.
        book: The assets that can be paid with.
        prices: What they cost.
        fee_payer: The key that pays for others; None: nobody does.
        can_sponsor: Whether we would pay for a payment of an account (canonical CAIP-10) now.

    Attributes:
        evidence: Proves transfers; counts how often nodes did not agree.
    """

    has_nodes = True

    def __init__(
        self,
        terms: Terms,
        *,
        rpc: Rpc,
        db: Database,
        book: AssetBook,
        prices: Prices,
        fee_payer: FeePayer | None = None,
        can_sponsor: CanSponsor = lambda buyer: True,
    ) -> None:
        self.terms = terms
        self.rpc = rpc
        self.book = book
        self.evidence = Evidence(rpc, terms.chain)
        self._db = db
        self._name = str(terms.chain)
        self._prices = prices
        facts, commitments = Facts(rpc), Commitments(terms, book, prices)
        budget = None if fee_payer is None else Budget(terms, db, fee_payer)
        self._offers = Offers(terms, book, prices, facts, can_sponsor)
        self._resolver = Resolver(terms, rpc, db, book, facts, budget)
        self._checks = Checks(terms, rpc, db, budget, commitments)
        self._pay_back = PayBack(terms, rpc, db, book, facts)
        endings = Endings(terms, self.evidence)
        self._looks = Looks(terms, rpc, db, commitments, self.evidence, endings)

    def serves(self, chain: str) -> bool:
        """Whether this CAIP-2 chain is mine."""
        return chain == self._name

    def display(self, asset: AssetId) -> Display | None:
        """How amounts of the asset are shown; None when the asset is not known here."""
        return self.book.display(asset) if canonical_chain(asset.chain) == self.terms.chain else None

    async def rate(self, currency: str, asset: AssetId, now_ms: int) -> Rate | None:
        """What offers in the asset are priced at; None: nobody can say now, or it is not known here."""
        row = self.book.find(asset) if canonical_chain(asset.chain) == self.terms.chain else None
        priced = None if row is None else await self._prices.price(currency, row, now_ms)
        return None if priced is None else priced.rate

    async def read_ahead(self, payment: Payment, asks: Sequence[Ask], now_ms: int) -> None:
        """Read in one go what the offers for these will need.

        Raises:
            ChainUnavailable: No node answers.
        """
        await self._offers.read_ahead(payment, asks, now_ms)

    async def offer(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Offer | None:
        """What the account would pay in the asset now; None when it cannot.

        Raises:
            ChainUnavailable: No node answers.
        """
        return await self._offers.offer(payment, asset, account, destination, now_ms)

    async def pay_offer(
        self, payment: Payment, asset: AssetId, destination: str, now_ms: int, *, label: str = ""
    ) -> Offer | None:
        """What whoever follows a Solana Pay link would pay; see `pay_links.pay_offer`.

        Raises:
            ChainUnavailable: No node answers.
        """
        return await pay_offer(self._offers, payment, asset, destination, now_ms, label=label)

    async def resolve(self, payment: Payment, quote: Quote, data: str, now_ms: int) -> Resolved:
        """The transaction behind a build action; see `Resolver.resolve`.

        Raises:
            InvalidParams: `data` is not that of a build action of this quote.
            QuoteExpired: What it was made from is no longer so.
            InvalidState: The account cannot pay, or the merchant not be paid.
            RateLimited: We would have to pay the fee, and have paid for enough.
            ChainUnavailable: No node answers.
        """
        return await self._resolver.resolve(payment, quote, data, now_ms)

    async def check(self, payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        """Whether results pay the quote. Has no effect on the chain.

        Raises:
            ChainUnavailable: No node answers.
        """
        return await self._checks.check(payment, quote, results, now_ms)

    async def destination_problem(self, asset: AssetId, destination: AccountId) -> str | None:
        """What the chain itself shows to be wrong with `destination`: it has to be a wallet, or nothing yet,
        and the asset one that can be paid with.

        Raises:
            ChainUnavailable: No node answers.
        """
        wallet = Pubkey.from_string(destination.address)
        return await destination_problem(self.rpc, wallet, self.book.find(asset))

    def read_until_ms(self, chain: str) -> int | None:
        """Up to which time of its own clock everything final was read; 0 before the first time."""
        cursor = self._db.point(find_cursor, self._name, "final")
        return 0 if cursor is None else cursor.time_s * 1000

    def due_at_ms(self, payment: Payment) -> int | None:
        """When to ask what became of a payment, by its stored notes; all else the watcher has news of."""
        return self._looks.due_at_ms(payment)

    async def look(self, payment: Payment, now_ms: int) -> Found | None:
        """What the chain says about a payment; None when nothing new.

        Raises:
            ChainUnavailable: Too few nodes answer.
        """
        return await self._looks.look(payment, now_ms)

    async def refund_problem(self, payment: Payment, tx_id: str) -> str | None:
        """What is wrong with the transaction that a merchant names as a refund; None if nothing is.

        Raises:
            ChainUnavailable: No node answers.
        """
        return await refund_problem(self.rpc, self.terms.chain, payment, tx_id)

    async def write_refund(self, payment: Payment, account: AccountId, now_ms: int) -> Unsigned:
        """What pays a payment back from an account; see `BringsRefunds.write_refund`."""
        return await self._pay_back.write(payment, account, now_ms)

    async def bring_refund(self, payment: Payment, unsigned: Unsigned, signed: str, now_ms: int) -> Brought:
        """Bring it to the chain; see `BringsRefunds.bring_refund`."""
        return await self._pay_back.bring(payment, unsigned, signed, now_ms)
