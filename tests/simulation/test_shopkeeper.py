"""Who changes destinations knows what was done also where answers are lost, and finds out what was not."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest
import trio
from trio.testing import MockClock

from tests.crash.client import Answered, Lost
from tests.crash.held import HELD_CHANGES
from tests.crash.process import Furnished
from tests.crash.shoppers import Ledger
from tests.shop import START_MS
from tests.simulation.shopkeeper import MERCHANT_CHANGES, Shopkeeper

ASSETS: Final = ("eip155:1/slip44:60", "eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48")
WALLETS: Final = ("eip155:1:0x01", "eip155:1:0x02")
DELAY_S: Final = 60
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
                return said(200, {"destination": body["destination"]})
            case "DELETE", [shop, "settlements", "crypto", one]:
                return said(404 if self.there[shop].pop(one, None) is None else 200, {})
        assert method == "PATCH", (method, place)
        return said(200, {})


class SlowDesk(Desk):
    """Holds changes back.

    Args:
        rng: Which answers are lost.
        wrong: How it does that otherwise than it should.
    """

    def __init__(self, rng: Random, wrong: str = "") -> None:
        super().__init__(rng)
        self.wrong = wrong
        self.pending: dict[str, tuple[str, str, int]] = {}
        self.vacated: dict[tuple[str, str], tuple[str, int]] = {}

    def _do(self, method: str, place: list[str], body: Any) -> Answered:
        now_ms = START_MS + round(trio.current_time() * 1000)
        for one, (shop, to, due_ms) in list(self.pending.items()):
            if self.wrong != "forgets" and now_ms >= due_ms - 10_000 * (self.wrong == "is early"):
                self.there[shop][one][1] = to
                del self.pending[one]
        match method, place:
            case "GET", [shop, "settlements"]:
                return said(200, {"crypto": [self._shown(shop, one) for one in self.there[shop]]})
            case "PUT", [shop, "settlements", "crypto", one]:
                return self._put(shop, one, body, now_ms)
            case "DELETE", [shop, "settlements", "crypto", one, "pending"]:
                waits = one in self.pending
                if self.wrong != "takes nothing back":
                    self.pending.pop(one, None)
                settled = self.there[shop][one]
                shown = {"id": one, "asset": settled[0], "destination": settled[1]}
                return said(200, shown) if waits else said(404, {"code": "not_found"})
            case "DELETE", [shop, "settlements", "crypto", one] if one in self.there[shop]:
                self.pending.pop(one, None)
                asset, to = self.there[shop][one]
                self.vacated[shop, asset] = (to, now_ms + DELAY_S * 1000)
            case "POST", [shop, "settlements", "crypto"]:
                for one in body["settlements"]:
                    to, until_ms = self.vacated.get((shop, one["asset"]), ("", 0))
                    is_held = now_ms < until_ms and to != one["destination"]
                    if is_held and self.wrong != "registers what it should not":
                        return said(400, {"code": "invalid_params", "details": {"until": until_ms}})
        return super()._do(method, place, body)

    def _put(self, shop: str, one: str, body: Any, now_ms: int) -> Answered:
        settled, waits = self.there[shop][one], self.pending.get(one)
        last, to = settled[1] if waits is None else waits[1], body["destination"]
        if body.get("expected") not in (None, last):
            return said(400, {"code": "invalid_params"})
        if to == settled[1] or self.wrong == "does not wait":
            self.pending.pop(one, None)
            settled[1] = to
        elif waits is None or to != last or self.wrong == "waits anew":
            self.pending[one] = (shop, to, now_ms + DELAY_S * 1000)
        return said(200, self._shown(shop, one))

    def _shown(self, shop: str, one: str) -> dict[str, Any]:
        shown: dict[str, Any] = dict(zip(("asset", "destination"), self.there[shop][one], strict=True))
        if one in self.pending:
            _, to, due_ms = self.pending[one]
            at = datetime.fromtimestamp(due_ms / 1000, UTC).isoformat()
            shown["pending"] = {"destination": to, "appliesAt": at}
        return {"id": one, **shown}


def said(status: int, body: dict[str, Any]) -> Answered:
    """An answer."""
    return Answered(status, {}, msgspec.json.encode(body))


async def kept_for_hours(desk: Desk) -> tuple[Ledger, Counter[str]]:
    """What came of it when the shops were changed for some hours."""
    ledger, happened, enough = Ledger(), Counter[str](), trio.Event()
    holds = isinstance(desk, SlowDesk)
    ledger.changes.delay_s.first = DELAY_S if holds else 0
    ledger.changes.times.up(ledger.changes.now_s())
    keeper = Shopkeeper(lambda: desk, AT, ledger, Random(2), ASSETS, WALLETS, happened, holds_back=holds)
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


async def test_changes_are_held_back_and_come_to_what_was_told(autojump_clock: MockClock) -> None:
    ledger, happened = await kept_for_hours(SlowDesk(Random(1)))

    assert ledger.problems == []
    assert happened.keys() == MERCHANT_CHANGES | HELD_CHANGES


@pytest.mark.parametrize(
    "wrong",
    [
        "does not wait",
        "waits anew",
        "is early",
        "forgets",
        "takes nothing back",
        "registers what it should not",
    ],
)
async def test_a_change_that_is_held_back_otherwise_than_was_told_is_a_problem(
    autojump_clock: MockClock, wrong: str
) -> None:
    ledger, _ = await kept_for_hours(SlowDesk(Random(1), wrong))

    assert ledger.problems
