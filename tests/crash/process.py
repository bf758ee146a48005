"""A payd process of its own on real files: furnished, started, killed, started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from payd.clock import WallMs, system_wall_ms
from payd.config import load
from payd.entropy import Entropy, system_entropy
from payd.server import open_house
from payd.web.commands import run_command
from tests.crash.client import Answered, Client
from tests.shop import USDC_BASE, WALLET

ROOT: Final = Path(__file__).parents[2]

READY_POLL_S: Final = 0.01
# Long past anything that is still well, on a machine with ten others at work on each core too; only so that a
# hang becomes a failure. A start takes half a second of a core.
START_MAX_S: Final = 120
STOP_MAX_S: Final = 60

_SERVES: Final = re.compile(rb"serves http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class Furnished:
    """A data directory with an account, a key, a merchant that can be paid, and a webhook endpoint."""

    folder: Path
    key: str
    merchant_id: str
    secret: str

    @property
    def headers(self) -> dict[str, str]:
        """What a request of the merchant's backend carries."""
        return {"api-key": self.key, "merchant-id": self.merchant_id}


def environment(folder: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables of a server in `folder` that may call this machine and refuses nobody for haste."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PAYD_")}
    own = {
        "PAYD_DATA_DIR": str(folder / "data"),
        "PAYD_LISTEN": "127.0.0.1:0",
        "PAYD_LOG_FORMAT": "json",
        "PAYD_RATE_LIMITS_PER_KEY": "0",
        "PAYD_RATE_LIMITS_PER_IP": "0",
        "PAYD_RATE_LIMITS_FAILED_AUTH": "0",
        "PAYD_HTTP_CONNECTIONS_PER_IP": "0",
        "PAYD_FEEDS_PER_IP": "0",
        "PAYD_FEEDS_PER_PAYMENT": "0",
        "PAYD_WEBHOOKS_TEST_ALLOW_HTTP": "true",
        "PAYD_WEBHOOKS_TEST_ALLOW_NETWORKS": "127.0.0.0/8",
        "PYTHONPATH": str(ROOT),
    }
    return kept | own | dict(more or {})


async def furnish(
    folder: Path, hook_url: str | None, *, wall: WallMs = system_wall_ms, entropy: Entropy = system_entropy
) -> Furnished:
    """Make a data directory that a server can be started on; without `hook_url`, no webhook endpoint."""
    config = load(None, environment(folder))
    async with open_house(config, inline=True, wall=wall, entropy=entropy) as house:

        async def do(command: str, **args: str) -> dict[str, Any]:
            made = await run_command(house, command, msgspec.json.encode(args))
            found: dict[str, Any] = msgspec.to_builtins(made)
            return found

        await do("account.create", name="main")
        key = (await do("key.create"))["apiKey"]
        merchant_id = (await do("merchant.create", name="Shop", email="shop@example.com"))["id"]
        await do(
            "destination.add", merchant=merchant_id, asset=USDC_BASE, destination=f"eip155:8453:{WALLET}"
        )
        secret = "" if hook_url is None else (await do("webhook.set", url=hook_url))["secret"]
        return Furnished(folder, key, merchant_id, secret)


class ServerDoor:
    """One client's connection to the server that runs now; after a death it finds the next one."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._client = Client(0)

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answered:
        """One request to the server that runs now, once one does. Raises `Lost`."""
        port = await self._server.wait_up()
        if self._client.port != port:
            await self._client.close()
            self._client = Client(port)
        return await self._client.ask(method, path, body, headers)

    async def close(self) -> None:
        """End the connection at once."""
        await self._client.close()


@dataclass
class Server:
    """The process on a furnished directory. Its port is another one after each start.

    Another `module` is served the same way if it says where, as payd does, and has a `/readyz`.
    """

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    module: tuple[str, ...] = ("payd", "serve")
    port: int = 0
    process: trio.Process | None = None
    ready_after_s: list[float] = field(default_factory=list)
    _up: trio.Event = field(default_factory=trio.Event)

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        assert self.process is not None
        return self.process.pid

    async def wait_up(self) -> int:
        """The port, once the server answers there."""
        await self._up.wait()
        return self.port

    def door(self) -> ServerDoor:
        """For one client."""
        return ServerDoor(self)

    async def spawn(self) -> None:
        """Start the process; it does not answer yet."""
        drop_cut_line(self.folder / "server.log")
        with (self.folder / "server.log").open("ab") as log:
            self.process = await trio.lowlevel.open_process(
                [sys.executable, "-m", *self.module],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                env=environment(self.folder, self.env),
            )
        self._spawned_s = time.monotonic()

    async def become_ready(self) -> None:
        """Return once `/readyz` answers 200; notes how long that took from the start of the process."""
        assert self.process is not None
        assert self.process.stdout is not None
        with trio.fail_after(START_MAX_S):
            said = b""
            while (found := _SERVES.search(said)) is None:
                more = bytes(await self.process.stdout.receive_some())
                assert more, f"the server ended at its start:\n{self.log()[-4000:]}"
                said += more
            self.port = int(found[1])
            async with Client(self.port) as client:
                while (await client.ask("GET", "/readyz")).status != 200:  # as a balancer asks
                    await trio.sleep(READY_POLL_S)
        self.ready_after_s.append(time.monotonic() - self._spawned_s)
        self._up.set()

    async def start(self) -> None:
        """Start the process and wait until it is ready."""
        await self.spawn()
        await self.become_ready()

    async def kill(self) -> None:
        """SIGKILL: nothing of the process runs after it."""
        if self._up.is_set():
            self._up = trio.Event()  # who waits for a start that was cut short waits for the next one
        assert self.process is not None
        self.process.kill()
        await self._reap()

    async def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        with trio.move_on_after(STOP_MAX_S):
            return await self._reap()
        self.process.kill()
        await self._reap()
        raise AssertionError("the server did not stop")

    async def _reap(self) -> int:
        assert self.process is not None
        code = await self.process.wait()
        assert self.process.stdout is not None
        await self.process.stdout.aclose()
        self.process = None
        return code

    async def put_away(self) -> None:
        """Leave no process behind, however the test ended."""
        if self.process is not None:
            with trio.CancelScope(shield=True):
                await self.kill()

    def log(self) -> str:
        """All that the server has logged, over all starts."""
        return (self.folder / "server.log").read_text()

    def complaints(self) -> list[dict[str, Any]]:
        """Log lines of severity error and above; a line that is none of ours is a complaint too."""
        found = []
        for line in self.log().splitlines():
            try:
                said = msgspec.json.decode(line)
            except msgspec.DecodeError:
                said = {"level": "error", "event": line}
            if said["level"] in ("error", "critical"):
                found.append(said)
        return found


def drop_cut_line(log: Path) -> None:
    """Take from a log's end what a kill cut off: it is no line, nor the beginning of the next one."""
    said = log.read_bytes() if log.exists() else b""
    if not said.endswith(b"\n") and said:
        os.truncate(log, said.rfind(b"\n") + 1)
