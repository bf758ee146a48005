"""Live payments on a real node: from a block to the webhook, calls a block, start and memory.

The node mines when it is asked to, so that every figure is from that moment; beside each stands what the node
itself takes in the same run until it shows the receipt.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from payd.config import load
from payd.server import open_house
from payd.web.commands import run_command
from tests.bench.sink import CA_FILE, Expect, OpenSink, Receivers, open_sink
from tests.crash.client import Client
from tests.crash.process import Server, environment
from tests.live.anvil import running_anvil
from tests.live.chain import BUYER, RELAYER, LocalChain, account, address
from tests.live.proxy import FlakyProxy, open_proxy
from tests.live.street import (
    CHAIN,
    DAI,
    USDC,
    configuration,
    furnish_chain,
    furnish_house,
    prepare,
    signed,
)

WAYS: Final = {"signed": USDC, "sent": DAI}
TRUSTING: Final = {
    "PAYD_WEBHOOKS_LIVE_CA_FILE": str(CA_FILE),
    "PAYD_WEBHOOKS_LIVE_ALLOW_NETWORKS": "127.0.0.0/8",
}
# Long past anything that is still measured.
PATIENCE_S: Final = 30.0
LOOK_AGAIN_S: Final = 0.0005
# A little more than payd's pauses, and the share of it that each payment waits more than the one before: what
# one payment wakes would else be just asleep again at every next one.
SPREAD_S: Final = 0.3
SPREAD: Final = 0.618
SETTLE_S: Final = 0.5


@dataclass(frozen=True)
class Walks:
    """How much.

    Attributes:
        payments: One after the other, signed and sent in turn.
        open_payments: How many are open while calls are counted.
        blocks: For which they are counted.
        block_s: From one to the next.
        starts: Of a server with a live chain, and of one without.
    """

    payments: int = 100
    open_payments: tuple[int, ...] = (10, 1000)
    blocks: int = 40
    block_s: float = 0.25
    starts: int = 3


@dataclass
class Walked:
    """Milliseconds from when a block was asked for, payment by payment.

    Attributes:
        receipt: Until the node showed the receipt.
        succeeded: Until payd had stored `succeeded`.
        webhook: Until the first byte of the webhook arrived.
        acted: Until payd had stored `succeeded`, from the last thing that the buyer did.
    """

    receipt: list[float] = field(default_factory=list)
    succeeded: list[float] = field(default_factory=list)
    webhook: list[float] = field(default_factory=list)
    acted: list[float] = field(default_factory=list)


@dataclass
class Shop:
    """A server with a live chain, and who asks it."""

    chain: LocalChain
    client: Client
    headers: dict[str, str]

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The body of an answer that is no refusal."""
        answered = await self.client.ask(method, path, body, self.headers)
        assert answered.status < 300, answered.raw
        return answered.body

    async def offered(self, asset: str) -> tuple[str, dict[str, Any]]:
        """A payment of a dollar, and its option in this asset."""
        price = {"unit": "iso4217/USD", "value": "100"}
        made = await self.ask("POST", "/v1/payments", {"referenceId": "ORDER", "amount": price})
        payment_id = made["paymentId"]
        accounts = [f"{CHAIN}:{address(BUYER)}"]
        options = (await self.ask("POST", f"/v1/gateway/payment/{payment_id}/options", accounts))["options"]
        unit = f"caip19/{asset}".lower()
        return payment_id, next(one for one in options if one["amount"]["unit"].lower() == unit)

    async def commit(self, way: str) -> tuple[str, str]:
        """A payment that is processing, and the hash of the transaction for it that waits in the pool."""
        payment_id, option = await self.offered(WAYS[way])
        [action] = option["actions"]
        params = json.loads(action["params"])
        if way == "signed":
            result = signed(params[1])
        else:
            data = bytes.fromhex(params[0]["data"].removeprefix("0x"))
            result = await self.chain.send_as(account(BUYER), params[0]["to"], data, gas=300_000)
        body = {"optionId": option["id"], "results": [{"type": "walletRpc", "data": [result]}]}
        told = await self.ask("POST", f"/v1/gateway/payment/{payment_id}/confirm", body)
        assert told["status"] == "processing", told
        return payment_id, await self._pooled(RELAYER if way == "signed" else BUYER)

    async def _pooled(self, place: int) -> str:
        with trio.fail_after(PATIENCE_S):
            while True:
                pending = (await self.chain.rpc("txpool_content"))["pending"]
                for sender, transactions in pending.items():
                    if sender.lower() == address(place).lower():
                        return str(next(iter(transactions.values()))["hash"])
                await trio.sleep(0.01)

    async def succeeded_at_ms(self, payment_id: str) -> float:
        """When payd stored that it succeeded; its webhook has arrived."""
        return stored_at_ms(await self.ask("GET", SUCCEEDED.format(payment_id)))


SUCCEEDED: Final = "/v1/events?type=payment.succeeded&paymentId={}"


def stored_at_ms(page: dict[str, Any]) -> float:
    """When payd stored the only event of a page."""
    [event] = page["data"]
    return datetime.fromisoformat(event["createdAt"]).timestamp() * 1000


@asynccontextmanager
async def open_live(folder: Path, chain: LocalChain, url: str, hook: str | None) -> AsyncIterator[Shop]:
    """A server of its own process on a node, with a shop in it."""
    headers = await furnish_live(folder, url, hook)
    server = Server(folder, TRUSTING)
    try:
        await server.start()
        async with Client(server.port) as client:
            yield Shop(chain, client, headers)
    finally:
        await server.put_away()


async def furnish_live(folder: Path, url: str, hook: str | None, lines: str = "") -> dict[str, str]:
    """Make a folder that a server with a live chain can be started in; what its merchant's backend sends.

    Args:
        folder: It.
        url: Of the chain's node.
        hook: Where live webhooks go.
        lines: Tables of payd.toml after the chain's.
    """
    prepare(folder, configuration([url], lines=f"depth = 1\n{lines}"))
    config = load(folder / "payd.toml", environment(folder, TRUSTING))
    async with open_house(config, inline=True) as house:
        headers = await furnish_house(house)
        if hook is not None:
            wanted = {"mode": "live", "url": hook, "events": ["payment.succeeded"]}
            await run_command(house, "webhook.set", msgspec.json.encode(wanted))
        return headers


async def measure_walks(folder: Path, plan: Walks) -> dict[str, Walked]:
    """Payments one after the other, each from the block that has it."""
    walked = {way: Walked() for way in WAYS}
    with running_anvil(slots_in_an_epoch=1) as anvil:
        chain = LocalChain(anvil)
        await furnish_chain(chain)
        async with (
            open_sink(Receivers(answering=1)) as sink,
            open_live(folder, chain, anvil.url, sink.answering[0]) as shop,
        ):
            await chain.rpc("evm_setAutomine", False)
            for number in range(plan.payments * len(WAYS)):
                way = list(WAYS)[number % len(WAYS)]
                await _walk(shop, sink, way, walked[way])
    return walked


def spread_s(number: int) -> float:
    """How long a payment waits, so that together they meet payd at every moment between two looks."""
    return SPREAD_S * (number * SPREAD % 1)


async def _walk(shop: Shop, sink: OpenSink, way: str, walked: Walked) -> None:
    payment_id, tx_id = await shop.commit(way)
    await sink.expect(Expect(1))
    await trio.sleep(spread_s(len(walked.receipt)))
    asked_ms = time.time() * 1000
    await shop.chain.mine()
    with trio.fail_after(PATIENCE_S):
        while await shop.chain.rpc("eth_getTransactionReceipt", tx_id) is None:
            await trio.sleep(LOOK_AGAIN_S)
    walked.receipt.append(time.time() * 1000 - asked_ms)
    [at_s] = (await sink.arrived()).at_s
    walked.webhook.append(at_s * 1000 - asked_ms)
    walked.succeeded.append(await shop.succeeded_at_ms(payment_id) - asked_ms)


async def measure_calls(folder: Path, plan: Walks, open_payments: int) -> float:
    """Calls of nodes for each block, besides those by which the head is asked for."""
    with running_anvil(slots_in_an_epoch=1) as anvil:
        chain = LocalChain(anvil)
        await furnish_chain(chain)
        async with open_proxy(anvil) as proxy, open_live(folder, chain, proxy.url, None) as shop:
            for _ in range(open_payments):
                await shop.offered(DAI)
            await trio.sleep(SETTLE_S)
            without = await _counted(proxy, plan, None)
            with_blocks = await _counted(proxy, plan, chain)
            return (with_blocks - without) / plan.blocks


async def _counted(proxy: FlakyProxy, plan: Walks, mined: LocalChain | None) -> int:
    """Calls in as long as so many blocks take, which are mined or not."""
    before = sum(proxy.calls.values())
    for _ in range(plan.blocks):
        if mined is not None:
            await mined.mine()
        await trio.sleep(plan.block_s)
    return sum(proxy.calls.values()) - before
