"""A shop's offers on a local Solana node: payments, options that are handed out, and wallets that fetch them.

There is no server and no actor: a test does itself what those would do between the steps.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest
from solders.message import Message
from solders.pubkey import Pubkey

from payd.chains.assets import Asset, AssetBook
from payd.chains.base import Resolved
from payd.chains.defaults import DepthPolicy
from payd.chains.market.table import TablePrices
from payd.chains.rpc import Rpc
from payd.chains.solana.budget import Budget
from payd.chains.solana.build import split, with_signature
from payd.chains.solana.dialect import SolanaDialect
from payd.chains.solana.facts import Facts
from payd.chains.solana.fee_payer import FeePayer
from payd.chains.solana.offers import Offers
from payd.chains.solana.resolve import Resolver
from payd.chains.solana.terms import Terms
from payd.core.caip import canonical_asset, parse_account, parse_asset, parse_chain
from payd.core.errors import PaydError
from payd.core.option import Build as BuildAction
from payd.core.option import Offer, Quote, WalletRpc
from payd.core.payment import Payment, open_payment
from payd.store.builds import Build, find_build, hash_message, reserved_on_builds
from payd.store.db import Database
from payd.store.options import Route, hand_out, hand_out_resolved
from payd.store.outbox import EventToStore
from tests.inserts import insert_payment
from tests.live.solana import (
    BUYER,
    CHAIN,
    FEE_PAYER,
    MERCHANT,
    USDC,
    LocalSolana,
    account_id,
    furnish_solana,
    keypair,
    pubkey,
)
from tests.live.svm_node import ServedNode, open_svm_node

PAYMENT_ID: Final = "pay_l01jw0000000000000000000000000000000a"
NOW_MS: Final = 1_780_000_000_000
WINDOW_MS: Final = 900_000
PRICES: Final[Mapping[str, str]] = {
    "USDC/USD": "1",
    "USDT/USD": "1",
    "PYUSD/USD": "1",
    "USDC/EUR": "0.9",
    "EURT/EUR": "1",
    "SOL/USD": "200",
}
TERMS: Final = Terms(
    chain=parse_chain(CHAIN),
    depth=DepthPolicy.of("finalized"),
    sponsor=True,
    fee_payer=pubkey(FEE_PAYER),
    price_max=100_000,
)


class Pen(FeePayer):
    """The fee payer's key, which remembers what it has signed."""

    def __init__(self) -> None:
        super().__init__(bytes([FEE_PAYER]) * 32)
        self.signed: list[bytes] = []

    def sign(self, message: bytes) -> bytes:
        self.signed.append(message)
        return super().sign(message)


@dataclass
class Desk:
    """Everything there is.

    Attributes:
        node: The chain's node.
        solana: What can be done on it.
        db: The realm's store.
        rpc: As the shop asks the node.
        terms: What the operator set.
        offers: What accounts are offered.
        links: What they are offered by links.
        resolver: The transactions behind that.
        pen: Signs where we pay.
        now_ms: Of the realm.
        sponsored: Who asked whether we would pay, as CAIP-10.
    """

    node: ServedNode
    solana: LocalSolana
    db: Database
    rpc: Rpc
    terms: Terms
    book: AssetBook
    facts: Facts
    pen: Pen
    now_ms: int = NOW_MS
    sponsored: list[str] = field(default_factory=list)
    would_sponsor: bool = True

    def __post_init__(self) -> None:
        self.open()

    def open(self, **terms: Any) -> None:
        """Begin, or go on under other terms."""
        self.terms = msgspec.structs.replace(self.terms, **terms)
        self.offers = Offers(self.terms, self.book, TablePrices(PRICES), self.facts, self._can_sponsor)
        self.budget = Budget(self.terms, self.db, self.pen)
        self.resolver = Resolver(self.terms, self.rpc, self.db, self.book, self.facts, self.budget)

    def _can_sponsor(self, buyer: str) -> bool:
        self.sponsored.append(buyer)
        return self.would_sponsor

    def later(self, ms: int) -> None:
        """Time passes, but no block comes."""
        self.now_ms += ms

    async def payment(self, value: int = 2500, currency: str = "USD", **other: Any) -> Payment:
        """A stored payment, open for a quarter of an hour."""
        payment = Payment(
            id=PAYMENT_ID,
            account_id="acct_1",
            merchant_id="mrch_1",
            reference_id="ORDER-1",
            currency=currency,
            value=value,
            created_at_ms=self.now_ms,
            expires_at_ms=self.now_ms + WINDOW_MS,
            updated_at_ms=self.now_ms,
        )
        payment = msgspec.structs.replace(payment, **other)
        event = EventToStore(f"evt_{payment.id}", b"{}", f"dlv_{payment.id}", f"msg_{payment.id}")
        await self.db.write(insert_payment, open_payment(payment), event, None)
        return payment

    async def offer(
        self, payment: Payment, asset: str = USDC, buyer: int = BUYER, merchant: int = MERCHANT
    ) -> Offer | None:
        """What an account is offered."""
        account = parse_account(account_id(buyer))
        return await self.offers.offer(
            payment, parse_asset(asset), account, account_id(merchant), self.now_ms
        )

    async def quote(
        self,
        payment: Payment,
        asset: str = USDC,
        buyer: int = BUYER,
        merchant: int = MERCHANT,
        option_id: str = "opt_1",
    ) -> Quote:
        """The same handed out, with what binds its transfers."""
        offer = await self.offer(payment, asset, buyer, merchant)
        assert offer is not None, "nothing is offered"
        route = Route(asset, canonical_asset(parse_asset(asset)), "crypto_1", account_id(merchant))
        handed = [(route, offer, option_id)]
        [quote] = await self.db.write(hand_out, payment.id, handed, self.now_ms, payment.expires_at_ms)
        return quote

    async def fetch(self, payment: Payment, quote: Quote) -> Fetched:
        """What a wallet fetches for a quote, handed out as the server does it."""
        [action] = quote.actions
        assert isinstance(action, BuildAction)
        resolved = await self.resolver.resolve(payment, quote, action.data, self.now_ms)
        until_ms = min(quote.valid_until_ms, resolved.valid_until_ms or quote.valid_until_ms)
        handed = msgspec.structs.replace(
            quote, actions=resolved.calls, valid_from_ms=self.now_ms, valid_until_ms=until_ms
        )
        await self.db.write(hand_out_resolved, handed)
        return Fetched(resolved)

    async def land(self, fetched: Fetched, buyer: int = BUYER) -> str:
        """Have the buyer sign it and the node take it; gives its id."""
        raw = with_signature(fetched.raw, pubkey(buyer), fetched.signed_by(buyer))
        tx_id = await self.solana.send_raw(raw, skip_preflight=False)
        await self.solana.confirm()
        return tx_id

    async def poor(self, place: int = BUYER) -> None:
        """Take all SOL from a wallet."""
        await self.solana.fund(pubkey(place), 0)
        await self.solana.confirm()

    async def refused(self, error: type[PaydError], payment: Payment, quote: Quote) -> str:
        """The words with which a fetch is refused; nothing is signed or reserved for it."""
        signed, reserved = len(self.pen.signed), self.db.point(reserved_on_builds, CHAIN)
        with pytest.raises(error) as caught:
            await self.fetch(payment, quote)
        assert len(self.pen.signed) == signed
        assert self.db.point(reserved_on_builds, CHAIN) == reserved
        return caught.value.message

    def build_of(self, fetched: Fetched) -> Build:
        """What is stored of a transaction that was fetched."""
        found = self.db.point(find_build, hash_message(fetched.bytes))
        assert found is not None, "it is not stored"
        return found


class Fetched:
    """A transaction as a wallet got it."""

    def __init__(self, resolved: Resolved) -> None:
        [self.call] = resolved.calls
        self.valid_until_ms = resolved.valid_until_ms
        assert isinstance(self.call, WalletRpc)
        [params] = self.call.params
        self.params: dict[str, str] = params
        self.raw = base64.b64decode(params["transaction"], validate=True)
        self.signatures, self.bytes = split(self.raw)
        self.message = Message.from_bytes(self.bytes)

    @property
    def fee_payer(self) -> Pubkey:
        """Who pays the network."""
        return self.message.account_keys[0]

    @property
    def programs(self) -> list[Pubkey]:
        """The program of each instruction."""
        return [self.message.account_keys[one.program_id_index] for one in self.message.instructions]

    def signed_by(self, place: int) -> bytes:
        """The signature of a key under it."""
        return bytes(keypair(place).sign_message(self.bytes))


@asynccontextmanager
async def open_desk(
    db: Database, *, rows: tuple[Asset, ...] = (), fee_payer_sol: int = 10**9, **terms: Any
) -> AsyncIterator[Desk]:
    """A furnished chain with an offering shop; its tests are marked `real_time`."""
    async with open_svm_node() as node:
        solana = LocalSolana(node)
        await furnish_solana(solana)
        await solana.fund(pubkey(FEE_PAYER), fee_payer_sol)
        await solana.confirm()
        rpc = Rpc([node.url], SolanaDialect(TERMS.chain.reference))
        try:
            yield Desk(
                node=node,
                solana=solana,
                db=db,
                rpc=rpc,
                terms=msgspec.structs.replace(TERMS, **terms),
                book=AssetBook(rows),
                facts=Facts(rpc),
                pen=Pen(),
            )
        finally:
            await rpc.aclose()
