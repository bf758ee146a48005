"""Who changes destinations knows what was done also where answers are lost, and finds out what was not."""

from __future__ import annotations

from collections import Counter
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import trio
from trio.testing import MockClock

from tests.crash.client import Answered, Lost
from tests.crash.process import Furnished
from tests.crash.shoppers import Ledger
from tests.simulation.shopkeeper import MERCHANT_CHANGES, Shopkeeper

ASSETS: Final = ("eip155:1/slip44:60", "eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48")
WALLETS: Final = ("eip155:1:0x01", "eip155:1:0x02")
AT: Final = Furnished(Path(), "svc_key", "mrch_1", "")


class Desk:
    """Keeps what it is asked to, and loses answers before or after."""

    def __init__(self, rng: Random, *, forgets: bool = False) -> None:
        self.there = {"mrch_1": {f"crypto_{n}": [asset, WALLETS[0]] for n, asset in enumerate(ASSETS)}}
        self.kept: dict[str, Answered] = {}
        self.forgets = forgets
        self._ids = count(100)
        self._rng = rng

    async def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answered:
        """One request."""
        await trio.sleep(0.01)
        if self._rng.random() < 0.2:
            raise Lost(path)
        key = (headers or {}).get("idempotency-key", "")
        answered = self.kept.get(key) or self._do(method, path.split("/")[3:], body)
        if key:
            self.kept[key] = answered
        if self._rng.random() < 0.2:
            raise Lost(path)
        return answered

    def wallets(self) -> dict[tuple[str, str], str]:
        """Where each merchant is paid in each asset."""
        return {
            (shop, asset.lower()): to.rpartition(":")[2]
            for shop, settlements in self.there.items()
            for asset, to in settlements.values()
        }

    async def close(self) -> None:
        """Nothing is kept."""
        await trio.lowlevel.checkpoint()

    def _do(self, method: str, place: list[str], body: Any) -> Answered:
        match method, place:
            case "POST", []:
                self.there["mrch_2"] = {}
                return said(201, {"merchant": {"id": "mrch_2"}})
            case "GET", [shop, "settlements"]:
                there = self.there[shop].items()
                found = [{"id": one, "asset": asset, "destination": to} for one, (asset, to) in there]
                return said(200, {"crypto": found})
            case "POST", [shop, "settlements", "crypto"]:
                for one in body["settlements"]:
                    self.there[shop][f"crypto_{next(self._ids)}"] = [one["asset"], one["destination"]]
                return said(201, {})
            case "PUT", [shop, "settlements", "crypto", one]:
                if body.get("expected") not in (None, self.there[shop][one][1]):
                    return said(400, {"code": "invalid_params"})
                if not self.forgets:
                    self.there[shop][one][1] = body["destination"]
                return said(200, {})
            case "DELETE", [shop, "settlements", "crypto", one]:
                return said(404 if self.there[shop].pop(one, None) is None else 200, {})
        assert method == "PATCH", (method, place)
        return said(200, {})


def said(status: int, body: dict[str, Any]) -> Answered:
    """An answer."""
    return Answered(status, {}, msgspec.json.encode(body))


async def kept_for_hours(desk: Desk) -> tuple[Ledger, Counter[str]]:
    """What came of it when the shops were changed for some hours."""
    ledger, happened, enough = Ledger(), Counter[str](), trio.Event()
    keeper = Shopkeeper(lambda: desk, AT, ledger, Random(2), ASSETS, WALLETS, happened)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run, enough)
        await trio.sleep(4 * 3600)
        enough.set()
    return ledger, happened


async def test_all_happens_and_what_was_told_is_there_whatever_answers_are_lost(
    autojump_clock: MockClock,
) -> None:
    desk = Desk(Random(1))

    ledger, happened = await kept_for_hours(desk)

    assert ledger.problems == []
    assert happened.keys() == MERCHANT_CHANGES
    assert ledger.lost > 100
    told = {place: course.now for place, course in ledger.changes.wallets.items()}
    assert desk.wallets() == {place: wallet for place, wallet in told.items() if wallet is not None}


async def test_a_change_that_was_answered_and_is_not_there_is_a_problem(autojump_clock: MockClock) -> None:
    ledger, _ = await kept_for_hours(Desk(Random(1), forgets=True))

    assert any("was told to be" in one for one in ledger.problems)
