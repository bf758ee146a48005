"""A shop on a real local node, as an `EvmChain` meets it: tokens, payments that were offered, wallets.

There is no server, and no actor but the watcher: a test moves payments by what the chain found, step by step.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import trio
from eth_account.messages import encode_typed_data

from payd.actors.block_watcher import block_watcher
from payd.actors.watcher import Watcher
from payd.chains.assets import Asset, AssetBook, Domain
from payd.chains.base import Accepted, Found, Verdict
from payd.chains.defaults import DepthPolicy
from payd.chains.evm.chain import EvmChain
from payd.chains.evm.dialect import EvmDialect
from payd.chains.evm.terms import Terms
from payd.chains.market.table import TablePrices
from payd.chains.rpc import Rpc
from payd.clock import Clock
from payd.core.caip import AccountId, ChainId, canonical_asset, parse_asset
from payd.core.option import Offer, Quote, Result, WalletRpc
from payd.core.payment import FundsCommitted, Payment, Trigger, open_payment, transition
from payd.core.relay import RelayJob
from payd.store.chain_cursors import Cursor, find_cursor
from payd.store.db import Database
from payd.store.options import Route, hand_out
from payd.store.outbox import EventToStore
from payd.store.relays import insert_job
from payd.store.sightings import hold_to_commitment
from payd.store.transfers import follow_transfer
from tests.inserts import insert_payment, record_transition
from tests.live.anvil import Anvil
from tests.live.chain import (
    BUYER,
    BUYER_2,
    MERCHANT,
    MULTICALL3,
    OPERATOR,
    RELAYER,
    LocalChain,
    account,
    address,
)
from tests.live.proxy import FlakyProxy, open_proxy

CHAIN: Final = ChainId("eip155", "31337")
ETH: Final = f"{CHAIN}/slip44:60"
PAYMENT_ID: Final = "pay_l01jw0000000000000000000000000000000a"
WINDOW_MS: Final = 900_000
READ_MAX_S: Final = 10.0
# What each buyer has: ten thousand dollars of each token.
MINTED: Final = 10_000_000_000
PRICES: Final[Mapping[str, str]] = {
    "USDC/USD": "1",
    "DAI/USD": "1",
    "ETH/USD": "2500",
    "USDC/EUR": "0.9",
    "ETH/EUR": "2250",
}
TERMS: Final = Terms(
    chain=CHAIN,
    block_ms=1000,
    depth=DepthPolicy.of(2),
    sponsor=True,
    relayer=address(RELAYER).lower(),
)


def usdc_row(token: str, **other: Any) -> Asset:
    """The row of a token that takes signatures."""
    row = Asset(
        asset=f"{CHAIN}/erc20:{token}",
        symbol="USDC",
        name="USD Coin",
        decimals=6,
        kind="eip3009",
        domain=Domain("USD Coin", "2"),
        par="USD",
    )
    return msgspec.structs.replace(row, **other)


def dai_row(token: str) -> Asset:
    """The row of a token that does not, as far as payd knows."""
    return usdc_row(token, symbol="DAI", name="Dai", kind="erc20", domain=None)


ETH_ROW: Final = Asset(asset=ETH, symbol="ETH", name="Ether", decimals=18, kind="native")


@dataclass
class Scene:
    """Everything there is.

    Attributes:
        chain: The node.
        db: The realm's store.
        rpc: As `evm` asks the node, or several.
        evm: What is tested.
        book: Its assets.
        usdc: The address of the token that takes signatures.
        dai: Of one that does not.
        told: Payments that the watcher had news of.
    """

    chain: LocalChain
    db: Database
    rpc: Rpc
    evm: EvmChain
    book: AssetBook
    usdc: str
    dai: str
    watcher: Watcher
    told: list[str] = field(default_factory=list)

    def restarted(self, **terms: Any) -> EvmChain:
        """The same chain, as another configuration has it."""
        return EvmChain(
            msgspec.structs.replace(self.evm.terms, **terms),
            rpc=self.rpc,
            db=self.db,
            book=self.book,
            prices=TablePrices(PRICES),
        )

    # Offering.

    @property
    def usdc_asset(self) -> str:
        return f"{CHAIN}/erc20:{self.usdc}"

    @property
    def dai_asset(self) -> str:
        return f"{CHAIN}/erc20:{self.dai}"

    async def now_ms(self) -> int:
        """By the chain: its newest block's time."""
        return await self.chain.now_s() * 1000

    async def payment(self, value: int = 2500, currency: str = "USD", **other: Any) -> Payment:
        """A stored payment, open for a quarter of an hour."""
        now_ms = other.pop("now_ms", None) or await self.now_ms()
        payment = Payment(
            id=PAYMENT_ID,
            account_id="acct_1",
            merchant_id="mrch_1",
            reference_id="ORDER-1",
            currency=currency,
            value=value,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + WINDOW_MS,
            updated_at_ms=now_ms,
        )
        payment = msgspec.structs.replace(payment, **other)
        event = EventToStore(f"evt_{payment.id}", b"{}", f"dlv_{payment.id}", f"msg_{payment.id}")
        await self.db.write(insert_payment, open_payment(payment), event, None)
        return payment

    async def offer(
        self, payment: Payment, asset: str, buyer: str | None = None, merchant: str | None = None
    ) -> Offer | None:
        """What an account is offered, the buyer's if none is named."""
        return await self.evm.offer(
            payment,
            parse_asset(asset),
            AccountId(CHAIN, buyer or address(BUYER)),
            f"{CHAIN}:{merchant or address(MERCHANT)}",
            await self.now_ms(),
        )

    async def quote(
        self,
        payment: Payment,
        asset: str,
        buyer: str | None = None,
        merchant: str | None = None,
        option_id: str = "opt_1",
    ) -> Quote:
        """The same handed out, with what binds its transfers."""
        offer = await self.offer(payment, asset, buyer, merchant)
        assert offer is not None, "nothing is offered"
        destination = f"{CHAIN}:{merchant or address(MERCHANT)}"
        route = Route(asset, canonical_asset(parse_asset(asset)), "crypto_1", destination)
        handed = [(route, offer, option_id)]
        now_ms = await self.now_ms()
        [quote] = await self.db.write(hand_out, payment.id, handed, now_ms, payment.expires_at_ms)
        return quote

    # Paying.

    async def send(self, quote: Quote, place: int = BUYER, **gas: int) -> str:
        """Send the transaction of a quote as its wallet does; gives its hash."""
        [action] = quote.actions
        assert isinstance(action, WalletRpc)
        [asked] = action.params
        data, value = bytes.fromhex(asked["data"][2:]), int(asked["value"], 16)
        return await self.chain.send_as(account(place), asked["to"], data, value, gas=300_000, **gas)

    async def check(self, payment: Payment, quote: Quote, *data: Any) -> Verdict:
        """What the chain says to results, one item each."""
        results = [Result("walletRpc", [item]) for item in data]
        return await self.evm.check(payment, quote, results, await self.now_ms())

    async def commit(self, payment: Payment, quote: Quote, *data: Any) -> Payment:
        """The payment after results that are good, with the relayer's job stored."""
        verdict = await self.check(payment, quote, *data)
        assert isinstance(verdict, Accepted), verdict
        committed = await self.move(payment, FundsCommitted(verdict.processing, b"results"))
        if isinstance(verdict.job, RelayJob):
            await self.db.write(insert_job, payment.id, verdict.job, await self.now_ms())
            await self.db.write(hold_to_commitment, payment.id)
        return committed

    async def relay(self, payment_id: str = PAYMENT_ID) -> str:
        """Bring the stored job to the chain as the relayer would; gives the hash."""
        [(target, data)] = await self.db.read(
            lambda tx: tx.execute(
                "SELECT target, data FROM relay_jobs WHERE payment_id = ?", (payment_id,)
            ).fetchall()
        )
        receipt = await self.chain.done(account(RELAYER), target, data)
        return str(receipt["transactionHash"])

    # Following.

    async def move(self, payment: Payment, trigger: Trigger) -> Payment:
        """Store that a trigger moves a payment."""
        moved = transition(payment, trigger, await self.now_ms())
        after = moved.payment
        event = EventToStore(
            f"evt_{after.id}{after.version}", b"{}", f"dlv_{after.version}", f"m{after.version}"
        )
        await self.db.write(record_transition, moved, event, None)
        return after

    async def watch(self, blocks: int = 0) -> None:
        """Have the watcher read everything, after so many more blocks."""
        if blocks:
            await self.chain.mine(blocks)
        head = await self.chain.head()
        with trio.fail_after(READ_MAX_S):
            # For a moment, the node has a transaction in its pool as well as in its block.
            while True:
                await self.watcher.run_once()
                read = self.db.point(find_cursor, str(CHAIN), "head")
                if read is not None and read.number >= head:
                    return

    async def look(self, payment: Payment) -> Found | None:
        """What the chain finds about a payment now."""
        return await self.evm.look(payment, await self.now_ms())

    async def follow(self, payment: Payment) -> Payment:
        """Look and store until nothing is new; gives the payment as it then is."""
        while (found := await self.look(payment)) is not None:
            if found.follow is not None:
                assert await self.db.write(follow_transfer, payment.id, found.follow)
            if found.trigger is None:
                return payment
            payment = await self.move(payment, found.trigger)
        return payment

    def final(self) -> Cursor | None:
        """Up to where the watcher has read final blocks."""
        return self.db.point(find_cursor, str(CHAIN), "final")


def sign(action: Any, place: int = BUYER) -> str:
    """The signature that a wallet gives for an action."""
    assert action.method == "eth_signTypedData_v4"
    message = encode_typed_data(full_message=json.loads(action.params[1]))
    return "0x" + bytes(account(place).sign_message(message).signature).hex()


@asynccontextmanager
async def open_scene(
    db: Database,
    anvil: Anvil,
    *,
    urls: Sequence[str] = (),
    rows: Sequence[Asset] | None = None,
    prices: Mapping[str, str] = PRICES,
    can_relay: bool = True,
    **terms: Any,
) -> AsyncIterator[Scene]:
    """A node with two tokens, buyers that hold them, and a watcher that has read all of that.

    Args:
        db: The realm's store.
        anvil: A fresh node.
        urls: Of the nodes that `evm` asks; none: the node itself.
        rows: The assets instead of the usual three.
        prices: What they cost.
        can_relay: What the relayer says of every buyer.
        terms: What is other than in `TERMS`.
    """
    chain = LocalChain(anvil)
    usdc, dai = await chain.token(), await chain.token("Dai", "DAI", "1")
    await chain.place("Multicall3", MULTICALL3)
    for buyer in (BUYER, BUYER_2):
        await chain.mint(usdc, address(buyer), MINTED)
        await chain.mint(dai, address(buyer), MINTED)
    book = AssetBook(rows if rows is not None else [usdc_row(usdc), dai_row(dai), ETH_ROW])
    rpc = Rpc(list(urls) or [anvil.url], EvmDialect(31337))
    watched = Rpc([anvil.url], EvmDialect(31337))
    evm = EvmChain(
        msgspec.structs.replace(TERMS, **terms),
        rpc=rpc,
        db=db,
        book=book,
        prices=TablePrices(prices),
        can_relay=lambda buyer: can_relay,
    )
    told: list[str] = []

    async def news(payment_id: str, name: str) -> None:
        told.append(payment_id)

    watcher = block_watcher(
        db=db,
        clock=Clock(),
        rpc=watched,
        chain=CHAIN,
        book=book,
        poll_ms=100,
        final=evm.terms.final,
        news=news,
    )
    await watcher.run_once()
    try:
        yield Scene(chain, db, rpc, evm, book, usdc, dai, watcher, told)
    finally:
        await rpc.aclose()
        await watched.aclose()


@asynccontextmanager
async def two_nodes(
    db: Database, anvil: Anvil, **other: Any
) -> AsyncIterator[tuple[Scene, FlakyProxy, FlakyProxy]]:
    """A scene whose `evm` asks two nodes that may lag, hide and lie; for the others see `open_scene`."""
    async with (
        open_proxy(anvil) as first,
        open_proxy(anvil) as second,
        open_scene(db, anvil, urls=[first.url, second.url], **other) as scene,
    ):
        yield scene, first, second


__all__ = ["BUYER", "BUYER_2", "MERCHANT", "OPERATOR", "RELAYER", "account", "address"]
