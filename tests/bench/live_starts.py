"""Starts and memory of servers with live chains, beside one with the test realm alone.

Source: DESIGN.md, "14. What it must reach (`scripts/bench`: ratios in one run, medians of alternated
rounds; never a timed test)".
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from tests.bench.live import Walks, furnish_live
from tests.bench.live_solana import furnish_live_solana
from tests.bench.machine import resident_bytes
from tests.crash.process import Server, furnish
from tests.live.anvil import running_anvil
from tests.live.chain import LocalChain
from tests.live.solana import CHAIN as SOLANA
from tests.live.solana import LocalSolana
from tests.live.solana_street import furnish_street
from tests.live.street import furnish_chain
from tests.live.svm_node import running_svm_node

TEST: Final = "the test realm alone"
EVM, ON_SOLANA, BOTH = "one EVM chain", "Solana", "an EVM chain and Solana"
IDLE_S: Final = 1.0


@dataclass
class Started:
    """By what the server has: milliseconds to `/readyz`, and MiB at rest."""

    ready_ms: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    idle_mib: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


async def measure_live_starts(folder: Path, plan: Walks) -> Started:
    """From the start of the process to `/readyz`, and its memory at rest; each kind in turn."""
    started = Started()
    with running_anvil(slots_in_an_epoch=1) as anvil, running_svm_node() as svm:
        await furnish_chain(LocalChain(anvil))
        await furnish_street(LocalSolana(svm))
        folders = {what: folder / str(number) for number, what in enumerate((EVM, ON_SOLANA, BOTH, TEST))}
        folders[TEST].mkdir()
        await furnish(folders[TEST], None)
        await furnish_live(folders[EVM], anvil.url, None)
        await furnish_live_solana(folders[ON_SOLANA], svm.url, None)
        await furnish_live(
            folders[BOTH], anvil.url, None, f'[[chains]]\nid = "{SOLANA}"\nrpc = ["{svm.url}"]'
        )
        for _ in range(plan.starts):
            for what, there in folders.items():
                ready_ms, mib = await _start(there)
                started.ready_ms[what].append(ready_ms)
                started.idle_mib[what].append(mib)
    return started


async def _start(folder: Path) -> tuple[float, float]:
    server = Server(folder)
    try:
        await server.start()
        await trio.sleep(IDLE_S)
        return 1000 * server.ready_after_s[-1], resident_bytes(server.pid) / 2**20
    finally:
        await server.put_away()
