"""What buyers under a seed do on any chain: they are offered something, and confirm; merchants match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import trio

from tests.crash.client import Answered
from tests.crash.process import Furnished
from tests.crash.shoppers import Door, Ledger, Told
from tests.simulation.world import SlowShopper

# A house may say so of nodes that fail: it is not the house's fault.
EXCUSED: Final = frozenset({503})
# What a confirm may be refused with: what it tells of is not there, is not this payment's, or comes too late.
REFUSED: Final = frozenset({400, 409, 410, 422})
# What a merchant's word comes to that says nothing yet.
NOT_YET: Final = frozenset({"not_mined", "not_read_yet", "disagreement"})
PAUSE_MAX_S: Final = 30.0
# How often somebody asks once more what was asked before.
LOOKS_AGAIN: Final = 0.3
# Payments are open for fifteen minutes.
LATE_S: Final = 700.0


class LiveShopper(SlowShopper):
    """Takes payments over a chain.

    Args:
        shops: The merchants, one of which each payment is made for.
    """

    def __init__(
        self,
        name: str,
        open_door: Callable[[], Door],
        ledger: Ledger,
        rng: Random,
        shops: Sequence[Furnished],
    ) -> None:
        super().__init__(name, open_door, shops[0], ledger, rng)
        self._shops = shops
        self._changes = ledger.changes

    async def _create(self, reference: str) -> Told | None:
        """At one shop or another, which may be closed just then."""
        self.at = self.rng.choice(self._shops)
        self._asked_s = self._changes.now_s()
        return await super()._create(reference)

    def refuse(self, answered: Answered, what: str) -> None:
        """Note an answer that nothing explains."""
        may_refuse = self._changes.may_take_nothing(self.at.merchant_id, self._asked_s)
        if what != "create" or answered.status != 400 or not may_refuse:
            super().refuse(answered, what)

    def excuses(self, answered: Answered) -> bool:
        """Nodes that do not answer are nobody's fault here."""
        return answered.status in EXCUSED

    async def _offers(self, told: Told, account: str) -> list[dict[str, Any]]:
        """What an account is offered; after a while, as people are, who may have looked again by then."""
        options = await self._asked_once(told, account)
        while options and self.rng.random() < LOOKS_AGAIN:
            await trio.sleep(self.rng.random() * 2 * PAUSE_MAX_S)
            options = await self._asked_once(told, account) or options
        await trio.sleep(self.rng.random() * PAUSE_MAX_S)
        return options

    async def _asked_once(self, told: Told, account: str) -> list[dict[str, Any]]:
        asked_s = self._changes.now_s()
        found = await self.insist("POST", f"/v1/gateway/payment/{told.payment_id}/options", [account])
        if found.status not in (200, 410) and not self.excuses(found):
            self.refuse(found, "options")
        options = (found.body.get("options") or []) if found.status == 200 else []
        for option in options:
            self._note(told, option["amount"]["unit"], self._wallet_in(option), asked_s)
        return options

    def _wallet_in(self, option: dict[str, Any]) -> str:
        """Where an option says to pay; empty where only its actions will, once they are built."""
        raise NotImplementedError

    def _note(self, told: Told, unit: str, wallet: str, asked_s: float) -> None:
        """Keep what a buyer was told."""
        asset = unit.removeprefix("caip19/")
        self._changes.offer(told.payment_id, self.at.merchant_id, asset, wallet, asked_s)

    async def _results(self, told: Told, option: dict[str, Any], results: Sequence[str]) -> None:
        """Confirm an option by what a wallet gave for each of its actions."""
        done = [{"type": "walletRpc", "data": [one]} for one in results]
        body = {"optionId": option["id"], "results": done}
        confirmed = await self.insist("POST", f"/v1/gateway/payment/{told.payment_id}/confirm", body)
        if confirmed.status == 200:
            told.statuses.append(confirmed.body["status"])
        elif confirmed.status not in (REFUSED | EXCUSED):
            self.refuse(confirmed, "confirm")

    async def _name(self, told: Told, tx_id: str) -> None:
        """The merchant says that this payment is paid by that transaction, until it can be told."""
        for _ in range(4):
            await trio.sleep(self.rng.random() * 2 * PAUSE_MAX_S)
            asked_s = self._changes.now_s()
            named = await self.insist("POST", f"/v1/payments/{told.payment_id}/match", {"txId": tx_id})
            if named.status == 400 and self._changes.may_be_unserved(asked_s):
                continue
            if named.status == 200 and named.body["match"]["outcome"] not in NOT_YET:
                return
            if named.status not in (200, 404, 429) and not self.excuses(named):
                self.refuse(named, "match")
