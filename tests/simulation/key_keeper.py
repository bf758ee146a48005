"""Who makes, uses and revokes an account's keys, while the house dies again and again.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Final

import trio

from tests.crash.client import Answered, Lost
from tests.crash.shoppers import Caller

if TYPE_CHECKING:
    from tests.simulation.world import World

PAUSE_MAX_S: Final = 20.0
# As of who looks after the endpoint.
CUTS: Final = 0.004
KEYS_MAX: Final = 4
SCOPES: Final = ("merchants:read", "payments:read")


class KeyKeeper(Caller):
    """Has some keys besides the one that everybody uses, and lets them go."""

    def __init__(self, world: World, rng: Random) -> None:
        super().__init__(world.door, world.at, world.ledger, rng)
        self._operator = world.door(CUTS)
        self._made = 0
        self._good: dict[str, str] = {}
        """Keys by their ids."""
        self._revoked: list[str] = []

    async def live(self, until: trio.Event) -> None:
        while not until.is_set():
            await trio.sleep(self.rng.random() * PAUSE_MAX_S)
            draw = self.rng.random()
            if draw < 0.3 and len(self._good) < KEYS_MAX:
                await self._make()
            elif draw < 0.5 and self._good:
                await self._revoke(self.rng.choice(sorted(self._good)))
            await self._use_one()
        for api_key in self._good.values():
            await self._use(api_key, 200)
        for api_key in self._revoked:
            await self._use(api_key, 401)

    async def _insist(self, command: str, **args: Any) -> Answered:
        while True:
            try:
                return await self._operator.operate(command, **args)
            except Lost:
                self.ledger.lost += 1

    async def _make(self) -> None:
        """A key whose answer was lost may be there, and nobody has it: it is found by its name, and ends."""
        self._made += 1
        name, asked_s = f"key {self._made}", self.ledger.changes.now_s()
        try:
            made = await self._operator.operate("key.create", name=name, scopes=SCOPES)
        except Lost:
            self.ledger.lost += 1
            listed = await self._insist("key.list")
            for key in listed.body:
                if key["name"] == name:
                    await self._insist("key.revoke", id=key["id"])
            return
        if made.status != 200:
            # Without a chain there are no live keys.
            if not self.ledger.changes.may_be_unserved(asked_s):
                self.refuse(made, "key.create")
            return
        self._good[made.body["id"]] = made.body["apiKey"]

    async def _revoke(self, key_id: str) -> None:
        api_key = self._good.pop(key_id)
        revoked = await self._insist("key.revoke", id=key_id)
        if revoked.status != 200 or not revoked.body["revokedAt"]:
            self.refuse(revoked, "key.revoke")
        self._revoked.append(api_key)
        await self._use(api_key, 401)

    async def _use_one(self) -> None:
        if self._good and self.rng.random() < 0.5:
            await self._use(self.rng.choice(list(self._good.values())), 200)
        elif self._revoked:
            await self._use(self.rng.choice(self._revoked), 401)

    async def _use(self, api_key: str, wanted: int) -> None:
        found = await self.insist("GET", "/v1/merchants", api_key=api_key)
        if found.status != wanted:
            self.refuse(found, f"a key of which {wanted} was expected")
