"""kill -9 between a merchant's word on its logo and the copy: it is owed, and made after the next start."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from tests.crash.client import Client
from tests.crash.process import Furnished, Server, furnish
from tests.pictures import decoded, plain
from tests.receiver import CA_FILE, Does, Receiver, Script, in_turn, server_tls

pytestmark = [pytest.mark.crash, pytest.mark.real_time]

LOOK_S: Final = 0.02
LOOK_MAX_S: Final = 30
PICTURE: Final = Does(body=plain("JPEG"), closes=True)


@asynccontextmanager
async def running(folder: Path, script: Script) -> AsyncIterator[tuple[Server, Furnished, Receiver, str]]:
    """A server, and a host of pictures that it may call; the last is the address of one."""
    async with trio.open_nursery() as nursery:
        host = Receiver(nursery, script, server_tls())
        url = f"https://127.0.0.1:{await host.listen()}/logo.jpg"
        at = await furnish(folder, None)
        server = Server(folder, {"PAYD_WEBHOOKS_TEST_CA_FILE": str(CA_FILE)})
        try:
            await server.start()
            yield server, at, host, url
        finally:
            await server.put_away()
            nursery.cancel_scope.cancel()


async def wish(server: Server, at: Furnished, url: str) -> None:
    """Tell the server where the logo is, and have its word for it."""
    async with Client(server.port) as client:
        said = await client.ask("PATCH", f"/v1/merchants/{at.merchant_id}", {"iconUrl": url}, at.headers)
    assert said.status == 200, said.raw
    assert said.body["logo"]["state"] == "copying"


async def copied(server: Server, at: Furnished) -> Any:
    """The merchant's logo once there is one."""
    async with Client(server.port) as client:
        with trio.fail_after(LOOK_MAX_S):
            while True:
                found = await client.ask("GET", f"/v1/merchants/{at.merchant_id}", None, at.headers)
                if found.body["logo"]["state"] == "ready":
                    return found.body["logo"]
                await trio.sleep(LOOK_S)


async def test_a_server_that_dies_while_it_copies_copies_again(tmp_path: Path) -> None:
    async with running(tmp_path, in_turn(Does(hangs=True), PICTURE)) as (server, at, host, url):
        await wish(server, at, url)
        await host.count(1)
        os.kill(server.pid, signal.SIGKILL)
        await server.kill()
        await server.start()
        logo = await copied(server, at)
        assert len(host.received) == 2
        async with Client(server.port) as client:
            shown = await client.ask("GET", "/logo/" + logo["url"].rpartition("/")[2])
        assert shown.status == 200
        assert decoded(shown.raw).format == "WEBP"


async def test_a_server_that_dies_with_its_answer_still_on_the_way_has_not_forgotten(tmp_path: Path) -> None:
    def script(_received: Any) -> Does:
        return PICTURE

    async with running(tmp_path, script) as (server, at, _, url):
        await wish(server, at, url)
        os.kill(server.pid, signal.SIGKILL)
        await server.kill()
        await server.start()
        assert (await copied(server, at))["problem"] is None
        assert server.complaints() == []
