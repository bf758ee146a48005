"""Live payments on Solana: from the slot that confirms to the webhook, and what nodes are asked for.

The node is the local one in a process of its own, whose slots come when they are asked for; beside each
figure stands what the node itself takes in the same run until it says `confirmed`.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import base64
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import httpx
import msgspec
import trio

from payd.config import load
from payd.server import open_house
from payd.web.commands import run_command
from tests.bench.live import (
    LOOK_AGAIN_S,
    PATIENCE_S,
    SETTLE_S,
    SUCCEEDED,
    TRUSTING,
    Walked,
    Walks,
    spread_s,
    stored_at_ms,
)
from tests.bench.sink import Expect, OpenSink, Receivers, open_sink
from tests.crash.process import Server, environment
from tests.live.front import write_configuration
from tests.live.proxy import Proxy, serving
from tests.live.solana import BUYER, POOR, USDC, LocalSolana, keypair, pay_by_link, pubkey, tx_id_of
from tests.live.solana_street import (
    SolanaShopfront,
    furnish_shop,
    furnish_street,
    signed,
    solana_configuration,
)
from tests.live.street import write_keystore
from tests.live.svm_node import running_svm_node
from tests.receiver import Does, Received

WAYS: Final = ("signed", "link")
# A dollar's worth, in cents.
PRICE: Final = "100"
# A look along the chain lists accounts, and reads the clocks with them; a payment's own calls do not do both.
CLOCKS, LISTS, HEAD = "getMultipleAccounts", "getSignaturesForAddress", "getSlot"


@dataclass
class Asked:
    """What nodes were asked for in a while.

    Attributes:
        looks: POSTs that look along the chain.
        listing: Calls in them.
        posts: All POSTs but those that ask for the head alone.
        calls: Calls in those.
    """

    looks: int = 0
    listing: int = 0
    posts: int = 0
    calls: int = 0

    def since(self, before: Asked) -> Asked:
        """What came after."""
        return Asked(
            self.looks - before.looks,
            self.listing - before.listing,
            self.posts - before.posts,
            self.calls - before.calls,
        )


@dataclass
class Counting(Proxy):
    """A node whose POSTs are counted by what they are for."""

    asked: Asked = field(default_factory=Asked)

    def __call__(self, received: Received) -> Does:
        """Count, and answer as the node does."""
        before = Counter(self.calls)
        done = super().__call__(received)
        new = self.calls - before
        if set(new) != {HEAD}:
            self.asked.posts += 1
            self.asked.calls += new.total()
        if CLOCKS in new and LISTS in new:
            self.asked.looks += 1
            self.asked.listing += new.total()
        self.requests.clear()
        return done


@dataclass
class Costs:
    """Calls and POSTs, with so many payments open.

    Attributes:
        calls: For each look along the chain.
        posts: For each look, among them the look's own.
        payment_calls: For each payment that is signed and succeeds, besides the looks.
        payment_posts: The same.
    """

    calls: float
    posts: float
    payment_calls: float
    payment_posts: float


@asynccontextmanager
async def open_live_solana(
    folder: Path, solana: LocalSolana, url: str, hook: str | None, lines: str = ""
) -> AsyncIterator[SolanaShopfront]:
    """A server of its own process on a node, with a shop in it."""
    headers = await furnish_live_solana(folder, url, hook, lines)
    server = Server(folder, TRUSTING)
    try:
        await server.start()
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
            yield SolanaShopfront(f"http://127.0.0.1:{server.port}", http, solana, headers=headers)
    finally:
        await server.put_away()


async def furnish_live_solana(folder: Path, url: str, hook: str | None, lines: str = "") -> dict[str, str]:
    """Make a folder that a server on Solana can be started in; what its merchant's backend sends.

    Args:
        folder: It.
        url: Of the chain's node.
        hook: Where live webhooks go.
        lines: More lines of the chain.
    """
    write_configuration(folder, solana_configuration([url], lines=lines))
    write_keystore(folder)
    config = load(folder / "payd.toml", environment(folder, TRUSTING))
    async with open_house(config, inline=True) as house:
        headers = await furnish_shop(house)
        if hook is not None:
            wanted = {"mode": "live", "url": hook, "events": ["payment.succeeded"]}
            await run_command(house, "webhook.set", msgspec.json.encode(wanted))
        return headers


async def measure_solana_walks(folder: Path, plan: Walks, *, told: bool) -> dict[str, Walked]:
    """Payments one after the other, each from the slot that confirms it.

    Args:
        folder: For the server's data.
        plan: How many.
        told: Whether a websocket tells of them, besides the looks.
    """
    walked = {way: Walked() for way in WAYS}
    with running_svm_node() as node:
        solana = LocalSolana(node)
        await furnish_street(solana)
        async with (
            open_sink(Receivers(answering=1)) as sink,
            open_live_solana(
                folder, solana, node.url, sink.answering[0], f'ws = "{node.ws_url}"' if told else ""
            ) as shop,
        ):
            for number in range(plan.payments * len(WAYS)):
                way = WAYS[number % len(WAYS)]
                await _walk(shop, sink, way, walked[way])
    return walked


async def _walk(shop: SolanaShopfront, sink: OpenSink, way: str, walked: Walked) -> None:
    payment_id = await shop.payment(PRICE)
    send = await _signed(shop, payment_id) if way == "signed" else await _linked(shop, payment_id)
    await sink.expect(Expect(1))
    await trio.sleep(spread_s(len(walked.receipt)))
    acted_ms = time.time() * 1000
    tx_id = await send()
    await _until(shop, tx_id, "processed")
    asked_ms = time.time() * 1000
    await shop.chain.slots(1)
    await _until(shop, tx_id, "confirmed")
    walked.receipt.append(time.time() * 1000 - asked_ms)
    [at_s] = (await sink.arrived()).at_s
    walked.webhook.append(at_s * 1000 - asked_ms)
    stored_ms = stored_at_ms((await shop.call("GET", SUCCEEDED.format(payment_id))).json())
    walked.succeeded.append(stored_ms - asked_ms)
    walked.acted.append(stored_ms - acted_ms)


Send = Callable[[], Awaitable[str]]
"""Does what the buyer does last; gives the transaction's id."""


async def _signed(shop: SolanaShopfront, payment_id: str) -> Send:
    """A buyer without SOL signs, and payd pays the fee and sends."""
    option = await shop.option(payment_id, USDC, POOR)
    raw = signed(await shop.handed_out(option, POOR), POOR)

    async def confirm() -> str:
        told = await shop.confirm(payment_id, option, base64.b64encode(raw).decode())
        assert told.status_code == 200, told.text
        return tx_id_of(raw)

    return confirm


async def _linked(shop: SolanaShopfront, payment_id: str) -> Send:
    """A buyer scans a code, and its wallet sends."""
    link = (await shop.links(payment_id))[USDC]
    raw = await shop.chain.signed(pay_by_link(link, pubkey(BUYER)), keypair(BUYER))

    async def send() -> str:
        return await shop.chain.send_raw(raw)

    return send


async def _until(shop: SolanaShopfront, tx_id: str, wanted: Literal["processed", "confirmed"]) -> None:
    """Ask the node again and again until it says that the transaction is so far."""
    with trio.fail_after(PATIENCE_S):
        while True:
            status = await shop.chain.status(tx_id)
            if status is not None and (wanted == "processed" or status["confirmationStatus"] != "processed"):
                return
            await trio.sleep(LOOK_AGAIN_S)


async def measure_solana_costs(folder: Path, plan: Walks, open_payments: int) -> Costs:
    """Calls of nodes by looks along the chain, and by payments, while so many are open."""
    with running_svm_node() as node:
        solana = LocalSolana(node)
        await furnish_street(solana)
        async with (
            serving(Counting(node)) as proxy,
            open_live_solana(folder, solana, proxy.url, None) as shop,
        ):
            for _ in range(open_payments):
                await shop.option(await shop.payment(PRICE), USDC, POOR)
            await trio.sleep(SETTLE_S)
            looks = await _looks(proxy, solana, plan)
            paid = await _paid(proxy, shop, plan.blocks // 2)
            return Costs(
                calls=looks.listing / looks.looks,
                posts=looks.posts / looks.looks,
                payment_calls=(paid.calls - paid.listing) / (plan.blocks // 2),
                payment_posts=(paid.posts - paid.looks) / (plan.blocks // 2),
            )


async def _looks(proxy: Counting, solana: LocalSolana, plan: Walks) -> Asked:
    """While slots come and nobody pays."""
    before = replace(proxy.asked)
    for _ in range(plan.blocks):
        await solana.slots(1)
        await trio.sleep(plan.block_s)
    return proxy.asked.since(before)


async def _paid(proxy: Counting, shop: SolanaShopfront, payments: int) -> Asked:
    """From the first option of so many payments to the settlement of the last one."""
    before, paid = replace(proxy.asked), []
    for _ in range(payments):
        payment_id = await shop.payment(PRICE)
        send = await _signed(shop, payment_id)
        await _until(shop, await send(), "processed")
        await shop.block()
        await shop.until(payment_id, "succeeded", "settled")
        paid.append(payment_id)
    for payment_id in paid:
        await shop.until(payment_id, "settled", mining=True)
    return proxy.asked.since(before)
