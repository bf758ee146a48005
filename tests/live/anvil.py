"""A real EVM node on this machine: anvil, from npm, once for each version into the folder of caches.

Where it is not like other nodes: a reorg does not give dropped transactions back to the pool, and a
replacement that is a single wei dearer is taken. What leans on either is tested without it.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.live.node_process import NodeProcess, started
from tests.live.node_process import Refused as Refused
from tests.packages import CACHE, from_npm

VERSION: Final = "1.7.1"
PACKAGE: Final = "@foundry-rs/anvil"
FOLDER: Final = CACHE / f"anvil-{VERSION}"
# The names that npm's packages have for machines.
MACHINES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
CHAIN_ID: Final = 31337

_LISTENS: Final = re.compile(r"^Listening on \S*?:(\d+)\s*$", re.MULTILINE)


class Anvil(NodeProcess):
    """A node that runs.

    Attributes:
        ws_url: The same port as for HTTP.
        chain_id: As it was asked for.
    """

    def __init__(self, port: int, chain_id: int, process: subprocess.Popen[bytes]) -> None:
        super().__init__(port, port, process)
        self.chain_id = chain_id


@contextmanager
def running_anvil(
    *,
    chain_id: int = CHAIN_ID,
    mining: bool = True,
    block_time_s: float | None = None,
    slots_in_an_epoch: int | None = None,
    port: int = 0,
    state: Path | None = None,
    options: tuple[str, ...] = (),
) -> Iterator[Anvil]:
    """A fresh node, ended with the block.

    Args:
        chain_id: Its chain's.
        mining: Whether it mines each transaction at once; without, blocks come from `evm_mine` alone.
        block_time_s: Mine so often instead, whether or not there are transactions.
        slots_in_an_epoch: `safe` is one and `finalized` two epochs behind the newest block; its own is 32.
        port: Of 127.0.0.1; 0: a free one.
        state: A file that it begins with, if it is there, and writes when it ends.
        options: More of its own.
    """
    command = [str(binary()), "--port", str(port), "--chain-id", str(chain_id), *options]
    if not mining:
        command.append("--no-mining")
    if block_time_s is not None:
        command += ["--block-time", f"{block_time_s:g}"]
    if slots_in_an_epoch is not None:
        command += ["--slots-in-an-epoch", str(slots_in_an_epoch)]
    if state is not None:
        command += ["--state", str(state)]
    with started(command, _LISTENS) as (process, ports):
        yield Anvil(ports[0], chain_id, process)


def binary() -> Path:
    """The program itself, installed if it is not there."""
    system, machine = platform.system().lower(), MACHINES[platform.machine().lower()]
    name = f"{PACKAGE}-{system}-{machine}"
    path = FOLDER / "node_modules" / name / "bin" / "anvil"
    from_npm(FOLDER, {name: VERSION})
    return path
