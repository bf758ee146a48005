"""What buyers under a seed do on any chain: they are offered something, and confirm; merchants match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import trio

from tests.crash.client import Answered
from tests.crash.shoppers import Told
from tests.simulation.world import SlowShopper

# A house may say so of nodes that fail: it is not the house's fault.
EXCUSED: Final = frozenset({503})
# What a confirm may be refused with: what it tells of is not there, is not this payment's, or comes too late.
REFUSED: Final = frozenset({400, 409, 410, 422})
# What a merchant's word comes to that says nothing yet.
NOT_YET: Final = frozenset({"not_mined", "not_read_yet", "disagreement"})
PAUSE_MAX_S: Final = 30.0
# Payments are open for fifteen minutes.
LATE_S: Final = 700.0


class LiveShopper(SlowShopper):
    """Takes payments over a chain."""

    def excuses(self, answered: Answered) -> bool:
        """Nodes that do not answer are nobody's fault here."""
        return answered.status in EXCUSED

    async def _offers(self, told: Told, account: str) -> list[dict[str, Any]]:
        """What an account is offered; after a while, as people are."""
        found = await self.insist("POST", f"/v1/gateway/payment/{told.payment_id}/options", [account])
        if found.status not in (200, 410) and not self.excuses(found):
            self.refuse(found, "options")
        await trio.sleep(self.rng.random() * PAUSE_MAX_S)
        return (found.body.get("options") or []) if found.status == 200 else []

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
            named = await self.insist("POST", f"/v1/payments/{told.payment_id}/match", {"txId": tx_id})
            if named.status == 200 and named.body["match"]["outcome"] not in NOT_YET:
                return
            if named.status not in (200, 404, 429) and not self.excuses(named):
                self.refuse(named, "match")
