"""What the machine allows at all, in the same rounds as payd: its disk's fsync, and servers that do nothing.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import trio

from tests.bench.load import Job, send_load
from tests.bench.measure import STILL
from tests.bench.table import Line
from tests.crash.client import request_bytes
from tests.crash.process import Furnished, Server, furnish

HEADER: Final = ("limit", "at", "the limit (1/s)", "what payd does", "payd (1/s)", "payd : limit")
NOTES: Final = """\
- **fsync** appends to a file as SQLite does to its log, as much as one payment or a batch of them takes, and
  waits for the disk each time. payd commits what is ready at the same moment together, with one fsync: it may
  well create more payments a second than the disk syncs.
- **Bare servers** send the same few bytes for whatever arrives, and parse nothing: a task a connection on
  Trio, a protocol on asyncio with uvloop, a loop around epoll. No server of their kind can be faster. They
  and payd are asked by the same load generator, which shares the machine's cores with them."""

STATUS: Final = "read a status"
CREATE: Final = "create a payment, durable"
PAYMENT_BYTES: Final = 4096
BATCH_BYTES: Final = 65_536
PAYMENTS: Final = 200
BARE: Final = {
    "bare server, Trio": ("tests.bench.bare", "trio"),
    "bare server, asyncio and uvloop": ("tests.bench.bare", "asyncio"),
    "bare server, epoll": ("tests.bench.fixed",),
}
SYNCS: Final = {"fsync of 4 KiB": PAYMENT_BYTES, "fsync of 64 KiB": BATCH_BYTES}


@dataclass(frozen=True)
class Bounds:
    """How much."""

    rounds: int = 5
    seconds: float = 1.5
    clients: int = 100


async def limit_lines(folder: Path, plan: Bounds, say: Callable[[str], None]) -> list[Line]:
    """Every limit beside what payd does under it."""
    rates: dict[str, list[float]] = {name: [] for name in (*SYNCS, *BARE, STATUS, CREATE)}
    at = await furnish(folder, None)
    async with AsyncExitStack() as stack:
        servers = {name: Server(folder, module=module) for name, module in BARE.items()}
        payd = Server(folder, STILL)
        for server in (payd, *servers.values()):
            stack.push_async_callback(server.put_away)
            await server.start()
        asked = await _requests(payd, at, plan)
        for number in range(plan.rounds):
            say(f"limits, round {number + 1}")
            for name, size in SYNCS.items():
                rates[name].append(
                    await trio.to_thread.run_sync(sync_rate, folder / "sync", size, plan.seconds / 2)
                )
            for name, server in servers.items():
                rates[name].append(await _rate(server, plan, asked[STATUS]))
            for name, requests in asked.items():
                rates[name].append(await _rate(payd, plan, requests))
    medians = {name: median(found) for name, found in rates.items()}
    return [_line(name, plan, medians, CREATE if name in SYNCS else STATUS) for name in (*SYNCS, *BARE)]


def sync_rate(path: Path, size: int, seconds: float) -> float:
    """How often a second so many bytes are appended to a file and are on the disk, one after the other."""
    block, count = os.urandom(size), 0
    with path.open("wb", buffering=0) as file:
        started_s = time.perf_counter()
        while (took_s := time.perf_counter() - started_s) < seconds:
            file.write(block)
            os.fdatasync(file.fileno())
            count += 1
    path.unlink()
    return count / took_s


async def _requests(payd: Server, at: Furnished, plan: Bounds) -> dict[str, list[bytes]]:
    """What payd is asked: to create, and for the statuses of payments that were created."""
    body = {"referenceId": "ORDER", "amount": {"unit": "iso4217/USD", "value": "2500"}}
    create = [request_bytes("POST", "/v1/payments", body, at.headers)]
    report = await send_load(Job(payd.port, plan.clients, create * PAYMENTS, keep=True))
    ids = [msgspec.json.decode(made)["paymentId"] for made in report.bodies]
    paths = [f"/v1/payments/{one}/status" for one in ids]
    return {
        STATUS: [request_bytes("GET", path, None, at.headers) for path in paths],
        CREATE: create * PAYMENTS,
    }


async def _rate(server: Server, plan: Bounds, requests: list[bytes]) -> float:
    report = await send_load(Job(server.port, plan.clients, requests, plan.seconds, plan.seconds / 10))
    assert not report.refused, f"{report.refused} requests were refused"
    return report.rate


def _line(name: str, plan: Bounds, medians: dict[str, float], payd: str) -> Line:
    limit, reached = medians[name], medians[payd]
    at = "one after the other" if name in SYNCS else f"{plan.clients} connections"
    return (name, at, f"{limit:,.0f}", payd, f"{reached:,.0f}", f"**{reached / limit:.2f}**")
