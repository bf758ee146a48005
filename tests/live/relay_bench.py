"""A relayer on a real node, with a token and buyers who sign, as tests of the live realm want it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
from eth_account.messages import encode_typed_data

from payd.actors.relayer import Relayer
from payd.chains.evm.abi import MULTICALL3
from payd.chains.evm.authorization import (
    Authorization,
    TokenDomain,
    transfer_with_authorization_call,
    typed_data,
)
from payd.chains.evm.binding import Leg, authorization_nonce
from payd.chains.evm.dialect import EvmDialect
from payd.chains.evm.signer import Signer
from payd.chains.rpc import NodesDown, Rpc
from payd.clock import Clock
from payd.core.caip import ChainId
from payd.core.relay import RelayJob, RelayLimits
from payd.store.db import Database, open_database
from payd.store.relay_transactions import OpenTransaction, open_transactions
from payd.store.relays import Job, find_job, insert_job
from tests.live.anvil import Anvil, running_anvil
from tests.live.chain import BUYER, MERCHANT, RELAYER, LocalChain, account, address
from tests.live.proxy import FlakyProxy, Request, Rewrite

GWEI: Final = 10**9
DOLLARS: Final = 10**6
LIMITS: Final = RelayLimits(max_fee=500 * GWEI, gas_per_day=10**20, relays_per_buyer=1000)
CHAIN: Final = "eip155:31337"
DONE_MAX_S: Final = 30


@dataclass
class Live:
    """A relayer on a node that mines when it is told to, a token, and buyers with a thousand dollars each."""

    anvil: Anvil
    chain: LocalChain
    db: Database
    token: str
    clock: Clock = field(default_factory=Clock)

    @property
    def sender(self) -> str:
        """The relayer's account."""
        return address(RELAYER).lower()

    def relayer(self, rpc: Rpc) -> Relayer:
        """A process of its own, as far as memory goes."""

        async def news(payment_id: str, chain: str) -> None:
            raise AssertionError((payment_id, chain))

        signer = Signer(bytes(account(RELAYER).key))
        chain = ChainId("eip155", "31337")
        return Relayer(self.db, self.clock, rpc, chain, signer, LIMITS, news, lambda: None)

    def later(self, seconds: float) -> None:
        """What waits by the clock has waited."""
        self.clock.move_to_offset(self.clock.offset_ms + round(seconds * 1000))

    async def signed(
        self, payment_id: str, value: int, leg: Leg = "main", to: int = MERCHANT, payer: str | None = None
    ) -> bytes:
        """Calldata with the buyer's signature; `payer` is a smart wallet of the buyer."""
        domain = TokenDomain("USD Coin", "2", self.anvil.chain_id, self.token.lower())
        authorization = Authorization(
            domain,
            (payer or address(BUYER)).lower(),
            address(to).lower(),
            value,
            await self.chain.now_s() + 3600,
            authorization_nonce(payment_id, leg),
        )
        message = encode_typed_data(full_message=typed_data(authorization))
        return transfer_with_authorization_call(
            authorization, bytes(account(BUYER).sign_message(message).signature)
        )

    async def owe(self, payment_id: str, value: int = 5 * DOLLARS, **changes: Any) -> RelayJob:
        """Store a job of the buyer's."""
        data = changes.pop("data", None) or await self.signed(payment_id, value)
        job = RelayJob(
            CHAIN,
            f"{CHAIN}:{address(BUYER).lower()}",
            changes.pop("target", self.token),
            data,
            await self.chain.now_s() + 3600,
        )
        await self.db.write(insert_job, payment_id, msgspec.structs.replace(job, **changes), 0)
        return job

    def job(self, payment_id: str) -> Job:
        """As it is stored."""
        found = self.db.point(find_job, payment_id)
        assert found is not None
        return found

    def open(self) -> list[OpenTransaction]:
        """What is not known to be mined or lost."""
        return self.db.point(open_transactions, CHAIN, self.sender, 100)

    async def paid(self, to: int = MERCHANT) -> int:
        """Minor units that came to a merchant."""
        return await self.chain.balance(self.token, address(to))

    async def mine(self) -> None:
        """One block of what is in the pool."""
        await self.chain.rpc("evm_mine")

    async def base_fee(self, fee: int) -> None:
        """Of the next block."""
        await self.chain.rpc("anvil_setNextBlockBaseFeePerGas", hex(fee))


@asynccontextmanager
async def open_live(folder: Path) -> AsyncIterator[Live]:
    """A node of its own."""
    with running_anvil(slots_in_an_epoch=1) as anvil:
        chain = LocalChain(anvil)
        token = await chain.token()
        await chain.mint(token, address(BUYER), 1000 * DOLLARS)
        await chain.place("Multicall3", MULTICALL3)
        await chain.rpc("evm_setAutomine", False)
        async with open_database(folder / "live.db", "realm", inline=True) as db:
            yield Live(anvil, chain, db, token)


@asynccontextmanager
async def open_rpc(*urls: str, deadline_s: float = 10.0) -> AsyncIterator[Rpc]:
    """Nodes."""
    rpc = Rpc(urls, EvmDialect(31337), deadline_s=deadline_s)
    try:
        yield rpc
    finally:
        await rpc.aclose()


async def eventually(holds: Callable[[], bool]) -> None:
    """Return when it holds."""
    with trio.fail_after(DONE_MAX_S):
        while not holds():
            await trio.sleep(0.005)


async def eventually_landed(live: Live, relayer: Relayer, payment_id: str) -> None:
    """Blocks and ticks, as long as it takes."""
    with trio.fail_after(DONE_MAX_S):
        while live.job(payment_id).state != "landed":
            try:
                await relayer.run_once()
            except NodesDown:
                await trio.sleep(0.05)
            live.later(5)
            await live.mine()


def hanging_after(method: str, proxy: FlakyProxy) -> Rewrite:
    """A node that never answers again, once it has answered that."""

    def rewrite(request: Request, result: Any) -> Any:
        proxy.hang = proxy.hang or request["method"] == method
        return result

    return rewrite
