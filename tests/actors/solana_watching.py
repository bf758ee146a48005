"""A watcher of Solana in a test: payments as rows, a chain with the real token programs, and nodes in memory.

All in virtual time, but for the chain's own clock, which a test moves.
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import trio
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from payd.actors.account_walk import AccountWalk
from payd.actors.account_watcher import account_watcher
from payd.actors.watcher import Watcher
from payd.chains.assets import AssetBook
from payd.chains.rpc import Rpc
from payd.chains.solana.binding import memo_of, reference_key, reference_of
from payd.chains.solana.dialect import SolanaDialect
from payd.clock import Clock
from payd.core.caip import canonical_asset, parse_asset, parse_chain
from payd.core.money import asset_amount
from payd.core.option import Build, Offer
from payd.core.payment import (
    FundsCommitted,
    Payment,
    Processing,
    TransferConfirmed,
    Trigger,
    open_payment,
    transition,
)
from payd.store.db import Database, Tx
from payd.store.merchants import Merchant, insert_merchant
from payd.store.options import Route, hand_out
from payd.store.outbox import EventToStore
from payd.store.payments import find_payment
from payd.store.settlements import Settlement, insert_settlement
from payd.store.sightings import Sighting, sightings_in
from tests.chains.rpc_node import open_client, urls
from tests.inserts import insert_payment, record_transition
from tests.live.solana import (
    BUYER,
    CHAIN,
    MERCHANT,
    MERCHANT_2,
    SOL,
    USDC,
    USDC_MINT,
    LocalSolana,
    account_id,
    furnish_solana,
    keypair,
    memo,
    pay_sol,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.svm_ledger import Ledger
from tests.live.svm_methods import SvmNode
from tests.live.svm_node import answered
from tests.receiver import Does, Received
from tests.virtual_wall import VirtualWall

PRICE: Final = 25_000_000
WINDOW_S: Final = 900
FINALIZED: Final = 4
DOWN: Final = Does(status=503)


class Node(SvmNode):
    """One node, which may fail or lie.

    Attributes:
        does: What it does instead of answering.
        hides: Transactions that it lists nowhere.
        denies: Transactions that it lists, and has not.
        unknown: Transactions of which it gives no status.
        lies: Changes what it shows of each transaction.
        calls_in_10_s: Of one method; all of a POST above that is refused, as Solana's public nodes do.
        asked: The methods of each POST, in order.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self.does: Does | None = None
        self.hides: set[str] = set()
        self.denies: set[str] = set()
        self.unknown: set[str] = set()
        self.lies: Callable[[dict[str, Any]], None] | None = None
        self.calls_in_10_s: int | None = None
        self.answered_s: dict[str, list[float]] = {}
        self.asked: list[list[str]] = []

    def __call__(self, received: Received) -> Does:
        """The script of a `Receiver`."""
        asked = json.loads(received.body)
        self.asked.append([one["method"] for one in (asked if isinstance(asked, list) else [asked])])
        if self.calls_in_10_s is not None and not self._lets_through(self.asked[-1], self.calls_in_10_s):
            return Does(status=429)
        return self.does or Does(body=answered(self, received.body))

    def _lets_through(self, methods: Sequence[str], most: int) -> bool:
        now_s = trio.current_time()
        lately = {
            method: [at_s for at_s in self.answered_s.get(method, ()) if now_s - at_s < 10]
            for method in methods
        }
        if any(len(lately[method]) + methods.count(method) > most for method in methods):
            return False
        self.answered_s |= {
            method: times + [now_s] * methods.count(method) for method, times in lately.items()
        }
        return True

    def ask(self, method: str, *params: Any) -> Any:
        """The result, without what it hides."""
        said = super().ask(method, *params)
        if method == "getSignaturesForAddress":
            return [one for one in said if one["signature"] not in self.hides]
        if method == "getTransaction" and params[0] in self.denies | self.hides:
            return None
        if method == "getTransaction" and said is not None and self.lies is not None:
            said = copy.deepcopy(said)
            self.lies(said)
        if method == "getSignatureStatuses":
            pairs = zip(params[0], said["value"], strict=True)
            return {**said, "value": [None if one in self.unknown else status for one, status in pairs]}
        return said


@dataclass
class SolanaWatching:
    """One watcher and everything around it.

    Attributes:
        told: Ids of payments that were told of news, in order.
        wakes: How often who brings transactions was woken.
    """

    db: Database
    ledger: Ledger
    nodes: tuple[Node, ...]
    rpc: Rpc
    clock: Clock
    local: LocalSolana
    watcher: Watcher
    told: list[str] = field(default_factory=list)
    wakes: int = 0

    # Payments.

    @property
    def now_ms(self) -> int:
        """By the chain's newest block."""
        return self.ledger.tip.time_s * 1000

    async def sell(
        self, name: str = "1", *, asset: str = USDC, value: int = PRICE, to: int = MERCHANT, merchant: int = 1
    ) -> str:
        """A payment that was offered to the buyer; its id."""
        at_ms = self.now_ms
        payment = Payment(
            id=f"pay_l{name}",
            account_id=f"acct_{merchant}",
            merchant_id=f"mrch_{merchant}",
            reference_id=f"R-{name}",
            currency="USD",
            value=2500,
            created_at_ms=at_ms,
            expires_at_ms=at_ms + WINDOW_S * 1000,
            updated_at_ms=at_ms,
        )
        opened = open_payment(payment)
        await self.db.write(insert_payment, opened, _event(opened.payment), payment.expires_at_ms)
        await self.offer(payment.id, asset=asset, value=value, to=to)
        return payment.id

    async def offer(
        self, payment_id: str, *, asset: str = USDC, value: int = PRICE, to: int = MERCHANT
    ) -> None:
        """Hand an option of it out, as the gateway does."""
        payment = self.payment(payment_id)
        key = canonical_asset(parse_asset(asset))
        bindings = (reference_of(payment_id),)
        offer = Offer(
            asset, account_id(BUYER), value, (Build("plan"),), 2, payment.expires_at_ms, bindings=bindings
        )
        route = Route(asset, key, "crypto_1", account_id(to))
        handed = [(route, offer, f"opt_{payment_id}_{key}")]
        await self.db.write(hand_out, payment_id, handed, self.now_ms, payment.expires_at_ms)

    async def commit(self, payment_id: str, *, asset: str = USDC, value: int = PRICE) -> None:
        """The buyer's funds are committed."""
        amount = asset_amount(asset, value)
        await self.move(
            payment_id, FundsCommitted(Processing(self.now_ms, amount, amount, account_id(BUYER), CHAIN))
        )

    async def succeed(self, payment_id: str, tx_id: str) -> None:
        """It is paid, by this transaction."""
        await self.commit(payment_id)
        await self.move(payment_id, TransferConfirmed(tx_id))

    async def move(self, payment_id: str, trigger: Trigger) -> None:
        """Move it by one trigger."""
        moved = transition(self.payment(payment_id), trigger, self.now_ms)
        due_at_ms = None if moved.payment.is_final else moved.payment.expires_at_ms
        await self.db.write(record_transition, moved, _event(moved.payment), due_at_ms)

    def payment(self, payment_id: str) -> Payment:
        """As it is stored."""
        found = self.db.point(find_payment, payment_id)
        assert found is not None
        return found

    def shown(self, tx_id: str) -> list[Sighting]:
        """What is stored of a transaction."""
        return self.db.point(sightings_in, CHAIN, tx_id)

    def kinds(self, tx_id: str) -> list[str]:
        """What its transfers are."""
        return [one.kind for one in self.shown(tx_id)]

    def count(self, table: str) -> int:
        """Rows of a table."""
        return self.db.point(lambda tx: _count(tx, table))

    # The chain.

    async def pay(
        self, payment_id: str, value: int = PRICE, *, to: int = MERCHANT, target: Pubkey | None = None
    ) -> str:
        """The buyer's wallet sends tokens with the payment's reference and memo; confirmed. Gives its id."""
        reference = reference_key(payment_id)
        transfer = pay_token(pubkey(BUYER), pubkey(to), USDC_MINT, value, reference, target=target)
        return await self.send([memo(memo_of(bytes(reference))), transfer])

    async def pay_in_sol(self, payment_id: str, value: int = PRICE) -> str:
        """The same in SOL."""
        reference = reference_key(payment_id)
        transfer = pay_sol(pubkey(BUYER), pubkey(MERCHANT), value, reference)
        return await self.send([memo(memo_of(bytes(reference))), transfer])

    async def send(self, instructions: Sequence[Instruction], signer: Keypair | None = None) -> str:
        """A transaction that lands and is confirmed; gives its id."""
        raw = await self.local.signed(instructions, signer or keypair(BUYER))
        await self.local.send_raw(raw)
        await self.local.confirm()
        return tx_id_of(raw)

    async def later(self, seconds: int = 10) -> None:
        """The chain's clock goes on, and everything so far is final."""
        self.ledger.ahead_s += seconds
        await self.local.slots(FINALIZED + 1)

    async def posts(self) -> int:
        """How many requests a round of all that is due takes."""
        before = self.rpc.posts
        assert await self.watcher.run_once()
        return self.rpc.posts - before

    @property
    def walk(self) -> AccountWalk:
        """Who reads for the watcher."""
        walk = self.watcher._walk
        assert isinstance(walk, AccountWalk)
        return walk

    def another(self, **more: Any) -> Watcher:
        """A watcher over the same rows, as after a restart."""
        return make_watcher(self, **more)


def make_watcher(watching: SolanaWatching, **more: Any) -> Watcher:
    """A watcher that tells `watching`."""

    async def news(payment_id: str, chain: str) -> None:
        assert chain == CHAIN
        watching.told.append(payment_id)

    def wake() -> None:
        watching.wakes += 1

    return account_watcher(
        db=watching.db,
        clock=watching.clock,
        rpc=watching.rpc,
        chain=parse_chain(CHAIN),
        book=AssetBook(),
        news=news,
        wake_relayer=wake,
        **{"poll_ms": 2000, **more},
    )


@asynccontextmanager
async def open_solana(db: Database, nodes: int = 1, *, begun: bool = True) -> AsyncIterator[SolanaWatching]:
    """Two merchants with a destination for USDC each, a chain, and nodes that tell the truth of it.

    Args:
        db: The realm's.
        nodes: How many.
        begun: Whether the watcher has seen the chain before the test.
    """
    ledger = Ledger(1, FINALIZED)
    told = tuple(Node(ledger) for _ in range(nodes))
    local = LocalSolana(SvmNode(ledger))
    await furnish_solana(local)
    await local.give(pubkey(MERCHANT_2), USDC_MINT, 0)
    await local.fund(pubkey(MERCHANT))
    await local.slots(2)
    for number, place in ((1, MERCHANT), (2, MERCHANT_2)):
        merchant = Merchant(f"mrch_{number}", f"acct_{number}", "Café", "a@example.com", None, "active", 1000)
        await db.write(insert_merchant, merchant)
        await settle(db, number, USDC, place)
    async with open_client(*told) as client:
        rpc = Rpc(urls(nodes), SolanaDialect(CHAIN.partition(":")[2]), client=client)
        wall, ahead_s = VirtualWall(ledger.tip.time_s * 1000), ledger.ahead_s
        # The machine's clock is right: it goes on with the chain's.
        clock = Clock(lambda: wall() + (ledger.ahead_s - ahead_s) * 1000)
        # The watcher tells `watching`, which it is a part of.
        watching = SolanaWatching(db, ledger, told, rpc, clock, local, None)  # type: ignore[arg-type]
        watching.watcher = make_watcher(watching)
        if begun:
            assert await watching.watcher.run_once()
            watching.wakes = 0
        yield watching


async def settle(db: Database, merchant: int, asset: str, place: int) -> None:
    """Register a destination of a merchant."""
    key = canonical_asset(parse_asset(asset))
    settlement = Settlement(
        f"crypto_{merchant}_{key}_{place}", f"mrch_{merchant}", asset, key, account_id(place), 1000
    )
    await db.write(insert_settlement, settlement)


def _count(tx: Tx, table: str) -> int:
    (count,) = tx.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def _event(payment: Payment) -> EventToStore:
    name = f"{payment.id}_{payment.version}"
    return EventToStore(f"evt_{name}", b"{}", f"dlv_{name}", f"msg_{name}")


__all__ = ["BUYER", "MERCHANT", "MERCHANT_2", "SOL", "USDC"]
