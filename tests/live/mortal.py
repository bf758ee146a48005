"""A shop whose server is a process of its own: it dies, starts again, and leaves a file to be looked at."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import trio

from tests.crash.process import Server
from tests.live.conformance import ALL_EVENTS
from tests.live.front import PATIENCE_S, Front


@dataclass
class MortalFront(Front):
    """Such a shop.

    Attributes:
        server: The process.
    """

    server: Server

    async def start(self) -> None:
        """Start the server; it answers then."""
        await self.server.start()
        self.url = f"http://127.0.0.1:{self.server.port}"

    async def insist(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do it again until the server lived long enough for an answer."""
        with trio.fail_after(PATIENCE_S):
            while True:
                try:
                    return await work()
                except httpx.TransportError:
                    await trio.sleep(0.02)

    def rows(self, question: str) -> list[tuple[Any, ...]]:
        """What the stopped server's file says."""
        db = sqlite3.connect(self.server.folder / "data" / "live.db")
        try:
            return db.execute(question).fetchall()
        finally:
            db.close()

    async def assert_settled_once(self, payment_ids: list[str]) -> None:
        """Each payment has its four events, without gap, and one transfer; stops the server."""
        for payment_id in payment_ids:
            await self.until(payment_id, "settled")
        assert await self.server.stop() == 0
        for payment_id in payment_ids:
            told = self.rows(
                f"SELECT version, type FROM events WHERE payment_id = '{payment_id}' ORDER BY seq"
            )
            assert told == list(enumerate(ALL_EVENTS))
        paid = self.rows("SELECT payment_id FROM transfers WHERE kind = 'matched' AND block_hash IS NOT NULL")
        assert sorted(one for (one,) in paid) == sorted(payment_ids)
        assert self.rows("PRAGMA integrity_check") == [("ok",)]
        assert self.server.complaints() == []
