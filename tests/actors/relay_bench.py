"""A relayer with its store, its nodes and what it owes, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from payd.actors.relayer import Relayer
from payd.chains.evm.abi import MULTICALL3, Call, aggregate3_call
from payd.chains.evm.authorization import Authorization, TokenDomain, transfer_with_authorization_call
from payd.chains.evm.binding import Leg, authorization_nonce
from payd.chains.evm.dialect import EvmDialect
from payd.chains.evm.signer import Signer
from payd.chains.rpc import Rpc
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.relay import RelayJob, RelayLimits
from payd.store.db import Database
from payd.store.relay_transactions import OpenTransaction, open_transactions
from payd.store.relays import Job, find_job, insert_job
from tests.actors.relay_chain import CHAIN_ID, GWEI, START_S, FakeChain, PoolNode, SignedTx
from tests.chains.rpc_node import open_client, urls
from tests.virtual_wall import VirtualWall

CHAIN: Final = f"eip155:{CHAIN_ID}"
TOKEN: Final = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
MERCHANT: Final = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
COIN: Final = 10**18
LIMITS: Final = RelayLimits(max_fee=500 * GWEI, gas_per_day=10 * COIN, relays_per_buyer=1000)
UNTIL_S: Final = START_S + 3600


def buyer(number: int) -> str:
    """An account of a buyer, CAIP-10."""
    return f"{CHAIN}:{buyer_address(number)}"


def buyer_address(number: int) -> str:
    """The address of one."""
    return f"0x{number + 1:040x}"


def authorization(payment_id: str, number: int = 0, leg: Leg = "main") -> bytes:
    """Calldata that carries out what a buyer signed for a payment."""
    domain = TokenDomain("USD Coin", "2", CHAIN_ID, TOKEN)
    nonce = authorization_nonce(payment_id, leg)
    signed = Authorization(domain, buyer_address(number), MERCHANT, 12_340_000, UNTIL_S, nonce)
    return transfer_with_authorization_call(signed, bytes([1]) * 64 + b"\x1b")


def job(payment_id: str, number: int = 0, **changes: Any) -> RelayJob:
    """What a buyer signed for a payment."""
    fields: dict[str, Any] = {
        "chain": CHAIN,
        "buyer": buyer(number),
        "target": TOKEN,
        "data": authorization(payment_id, number),
        "valid_until_s": UNTIL_S,
    }
    return RelayJob(**fields | changes)


def with_fee(payment_id: str, number: int = 0) -> RelayJob:
    """Two authorizations of a buyer, of which both are carried out or none."""
    legs: tuple[Leg, ...] = ("main", "fee")
    calls = [Call(TOKEN, authorization(payment_id, number, leg), may_fail=False) for leg in legs]
    return job(payment_id, number, target=MULTICALL3, data=aggregate3_call(calls))


@dataclass
class Bench:
    """What a test needs of a relayer.

    Attributes:
        told: The payments that were told of a dead job.
        woken: How often the watcher was woken.
    """

    db: Database
    clock: Clock
    chain: FakeChain
    nodes: tuple[PoolNode, ...]
    rpc: Rpc
    signer: Signer
    limits: RelayLimits = LIMITS
    told: list[str] = field(default_factory=list)
    woken: int = 0
    job_until_s: int = UNTIL_S

    def __post_init__(self) -> None:
        self.relayer = self.restarted()

    def restarted(self) -> Relayer:
        """Another process, with the same rows."""

        async def news(payment_id: str, chain: str) -> None:
            assert chain == CHAIN
            self.told.append(payment_id)

        def wake() -> None:
            self.woken += 1

        chain = ChainId("eip155", str(CHAIN_ID))
        self.relayer = Relayer(self.db, self.clock, self.rpc, chain, self.signer, self.limits, news, wake)
        return self.relayer

    def change_key(self) -> None:
        """Another key, with as much on its account."""
        self.signer = Signer(b"\x08" * 32)
        self.chain.fund(self.signer.address, 10 * COIN)
        self.restarted()

    def spend(self, **limits: Any) -> None:
        """Other limits, from a restart on."""
        fields = {name: getattr(self.limits, name) for name in self.limits.__struct_fields__}
        self.limits = RelayLimits(**fields | limits)
        self.restarted()

    async def owe(self, payment_id: str = "pay_1", number: int = 0, **changes: Any) -> RelayJob:
        """Store a job."""
        owed = job(payment_id, number, **changes)
        await self.db.write(insert_job, payment_id, owed, self.clock.now_ms())
        return owed

    async def tick(self, after_s: float = 0.0) -> None:
        """A tick, maybe later."""
        await trio.sleep(after_s)
        await self.relayer.run_once()

    def mine(self) -> list[str]:
        """A block of what the nodes hold."""
        return self.nodes[0].mine(*self.nodes[1:])

    def job(self, payment_id: str = "pay_1") -> Job:
        """A job as it is stored."""
        found = self.db.point(find_job, payment_id)
        assert found is not None
        return found

    def state(self, payment_id: str = "pay_1") -> str:
        """The state of a job."""
        return self.job(payment_id).state

    def open(self) -> list[OpenTransaction]:
        """What is not known to be mined or lost."""
        return self.db.point(open_transactions, CHAIN, self.signer.address, 1000)

    @property
    def pool(self) -> list[SignedTx]:
        """What the first node holds, the lowest nonce first."""
        return [self.nodes[0].pool[nonce] for nonce in sorted(self.nodes[0].pool)]

    def landed(self, owed: RelayJob) -> bool:
        """Whether the chain has carried it out."""
        return self.chain.is_used(owed.data, owed.target)


@asynccontextmanager
async def open_bench(db: Database, nodes: int = 1, **changes: Any) -> AsyncIterator[Bench]:
    """A relayer that holds ten coins, and so many nodes of one chain."""
    chain = FakeChain()
    made = tuple(PoolNode(chain, **changes) for _ in range(nodes))
    signer = Signer(b"\x07" * 32)
    chain.fund(signer.address, 10 * COIN)
    async with open_client(*made) as client:
        rpc = Rpc(urls(nodes), EvmDialect(CHAIN_ID), client=client)
        yield Bench(db, Clock(VirtualWall()), chain, made, rpc, signer)
