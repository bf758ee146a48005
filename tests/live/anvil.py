"""A real EVM node on this machine: anvil, from npm, once for each version into the folder of caches.

Where it is not like other nodes: a reorg does not give dropped transactions back to the pool, and a
replacement that is a single wei dearer is taken. What leans on either is tested without it.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import trio

VERSION: Final = "1.7.1"
PACKAGE: Final = "@foundry-rs/anvil"
CACHE: Final = Path(__file__).parents[2] / ".cache" / f"anvil-{VERSION}"
# The names that npm's packages have for machines.
MACHINES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
INSTALL_MAX_S: Final = 180
START_MAX_S: Final = 30
ANSWER_MAX_S: Final = 30
CHAIN_ID: Final = 31337

_LISTENS: Final = re.compile(r"^Listening on \S*?:(\d+)\s*$", re.MULTILINE)


class Refused(Exception):
    """The node answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class Anvil:
    """A node that runs.

    Attributes:
        url: For HTTP.
        ws_url: For websockets; the same port.
        chain_id: As it was asked for.
        process: To be stopped and continued by tests that want a node which hangs.
    """

    def __init__(self, port: int, chain_id: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.ws_url = f"ws://127.0.0.1:{port}"
        self.chain_id = chain_id
        self.process = process

    def ask(self, method: str, *params: Any) -> Any:
        """The result of one call, on a connection of its own. Blocks: it is a millisecond.

        Raises:
            Refused: The node answered with an error.
        """
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_MAX_S)
        try:
            connection.request("POST", "/", json.dumps(request), {"content-type": "application/json"})
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in answer:
            error = answer["error"]
            raise Refused(error["code"], error["message"], error.get("data"))
        return answer["result"]

    async def rpc(self, method: str, *params: Any) -> Any:
        """As `ask`, for the middle of a Trio program."""
        await trio.lowlevel.checkpoint()
        return self.ask(method, *params)

    def kill(self) -> None:
        """End it at once, as a node that crashes."""
        self.process.kill()
        self.process.wait()


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
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            yield Anvil(_listening(process, output.fileno()), chain_id, process)
        finally:
            process.terminate()
            process.wait()


def binary() -> Path:
    """The program itself, installed if it is not there."""
    system, machine = platform.system().lower(), MACHINES[platform.machine().lower()]
    name = f"{PACKAGE}-{system}-{machine}"
    path = CACHE / "node_modules" / name / "bin" / "anvil"
    if not path.exists():
        _install(f"{name}@{VERSION}")
    return path


def _install(package: str) -> None:
    """Into a folder aside, which then takes its place: two who install at once do not meet."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent) as aside:
        folder = Path(aside) / "anvil"
        command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(folder), package]
        done = subprocess.run(command, timeout=INSTALL_MAX_S, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"npm did not install {package}: {done.stderr[-2000:]}")
        try:
            folder.rename(CACHE)
        except OSError:
            if not CACHE.is_dir():
                raise


def _listening(process: subprocess.Popen[bytes], output: int) -> int:
    """The port, once it listens."""
    gives_up_s = time.monotonic() + START_MAX_S
    while True:
        said = os.pread(output, 64 * 1024, 0).decode(errors="replace")
        found = _LISTENS.search(said)
        if found is not None:
            return int(found[1])
        if process.poll() is not None or time.monotonic() > gives_up_s:
            raise RuntimeError(f"anvil did not start: {said[-2000:]}")
        time.sleep(0.002)
