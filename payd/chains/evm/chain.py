"""One EVM chain with real funds: what the `Chain` of the test realm plays, on nodes that are not trusted.

The rooms: `offers.py` and `ways.py` ask, and `confirm.py` checks what wallets hand back.
`look.py` follows what the watcher found; `evidence.py` proves it, and `ending.py` ends what never
came.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from payd.chains.asking import unavailable
from payd.chains.assets import AssetBook
from payd.chains.base import Ask, Found, Funds, Resolved, Verdict
from payd.chains.evm.commitment import Commitments
from payd.chains.evm.confirm import Checks
from payd.chains.evm.ending import Endings
from payd.chains.evm.evidence import Evidence
from payd.chains.evm.facts import Facts
from payd.chains.evm.look import Looks
from payd.chains.evm.offers import Offers
from payd.chains.evm.refund import refund_problem
from payd.chains.evm.signed import Signed
from payd.chains.evm.terms import Terms
from payd.chains.evm.tokens import Tokens
from payd.chains.evm.told import Sent
from payd.chains.evm.track import read_track
from payd.chains.evm.ways import CanRelay, Ways
from payd.chains.market.prices import Prices
from payd.chains.rpc import Rpc
from payd.core.caip import AccountId, AssetId, canonical_chain
from payd.core.errors import InvalidParams
from payd.core.money import Rate
from payd.core.option import Display, Offer, Quote, Result
from payd.core.payment import Payment
from payd.store.chain_cursors import closed_until_s, find_cursor
from payd.store.db import Database

# The first start of all takes a moment until its nodes have answered.
BEGUN_LOOKS: Final = 20
BEGUN_EVERY_S: Final = 0.1


class EvmChain:
    """One chain of the `eip155` namespace.

    Args:
        terms: What the operator set for it.
        rpc: Its nodes; closed by whoever opened them.
        db: The realm's store, read by point reads.
        book: The assets that can be paid with.
        prices: What they cost.
        can_relay: Whether the relayer would carry a payment of an account (canonical CAIP-10) now.

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
        can_relay: CanRelay = lambda buyer: True,
    ) -> None:
        self.terms = terms
        self.rpc = rpc
        self.book = book
        self.evidence = Evidence(rpc, terms.chain)
        self._db = db
        self._name = str(terms.chain)
        self._prices = prices
        facts, commitments = Facts(rpc), Commitments(terms, book, prices)
        ways = Ways(terms, facts, can_relay)
        self._offers = Offers(terms, book, prices, facts, Tokens(rpc, terms.chain), ways)
        self._checks = Checks(Signed(rpc, terms.relayer, commitments), Sent(rpc, commitments))
        endings = Endings(terms, self.evidence)
        self._looks = Looks(terms, db, commitments, self.evidence, endings)

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
            ChainUnavailable: No node answers, or the watcher has not begun.
        """
        await self._begun()
        return await self._offers.offer(payment, asset, account, destination, now_ms)

    async def funds(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Funds | None:
        """What the account has of the asset and of what sending it costs; None where nobody can pay with it.

        Raises:
            ChainUnavailable: No node answers.
        """
        return await self._offers.funds(payment, asset, account, destination, now_ms)

    async def resolve(self, payment: Payment, quote: Quote, data: str, now_ms: int) -> Resolved:
        """Nothing: no option of this chain has a build action.

        Raises:
            InvalidParams: Always.
        """
        raise InvalidParams("The option has no build action: its actions can be executed as they are.")

    async def check(self, payment: Payment, quote: Quote, results: Sequence[Result], now_ms: int) -> Verdict:
        """Whether results pay the quote. Has no effect on the chain.

        Raises:
            ChainUnavailable: No node answers.
        """
        return await self._checks.check(payment, quote, results, now_ms)

    async def destination_problem(self, asset: AssetId, destination: AccountId) -> str | None:
        """Nothing: whatever code an address has, or gets one day, somebody may hold tokens there."""
        return None

    async def _begun(self) -> None:
        """Return once the chain is read: at the first time ever that begins with its newest block, and what
        was paid before it is never looked for.

        Raises:
            ChainUnavailable: Its watcher has not begun.
        """
        for _ in range(BEGUN_LOOKS):
            if self._db.point(find_cursor, self._name, "head") is not None:
                return
            await trio.sleep(BEGUN_EVERY_S)
        raise unavailable("it has not been read for the first time")

    def read_until_ms(self, chain: str) -> int | None:
        """Up to which time of its own clock each block was read, by two nodes' word; 0 before the first."""
        return self._db.point(closed_until_s, self._name) * 1000

    def due_at_ms(self, payment: Payment) -> int | None:
        """When to ask what became of a payment, by its stored notes; all else the watcher has news of."""
        return self._looks.due_at_ms(payment)

    def depth_of(self, payment: Payment) -> int | None:
        """How many blocks a processing payment waits for; None where it waits for a tag of the chain."""
        depth = read_track(payment).depth
        return depth if isinstance(depth, int) else None

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
