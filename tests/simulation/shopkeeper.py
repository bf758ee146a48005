"""Merchants under a seed who change where they are paid, while people pay what they were told before.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import trio

from tests.crash.changes import Changes
from tests.crash.client import Answered
from tests.crash.held import Held, asked_last, shown_in, wallet_in
from tests.crash.process import Furnished
from tests.crash.shoppers import Caller, Door, Ledger
from tests.simulation.live_shopper import EXCUSED

# From one change to the next, and how long a merchant takes no payments.
PAUSE_MAX_S: Final = 40.0
CLOSED_MAX_S: Final = 60.0
# Where changes are held back, more of them come to nothing.
HASTE: Final = 0.3

MERCHANT_CHANGES: Final = frozenset(
    {
        "destination is added",
        "destination is replaced",
        "all destinations are replaced",
        "destination is removed",
        "merchant is closed",
        "second merchant",
    }
)
"""All that happens, by name."""
RESTORED: Final = "destinations are restored"


class Shopkeeper(Caller):
    """Of all merchants of an account, which share wallets of theirs.

    Args:
        assets: What merchants take, CAIP-19, as they write it.
        wallets: Their accounts, CAIP-10.
        happened: Counts it, by name.
        fickle: Of these the chain may say at times that they cannot be paid: token accounts are closed, and a
            node that is behind knows no token.
        holds_back: Whether changes wait at times before they are made.

    Attributes:
        shops: Each merchant, as its backend speaks for it; a second one comes soon.
    """

    def __init__(
        self,
        open_door: Callable[[], Door],
        at: Furnished,
        ledger: Ledger,
        rng: Random,
        assets: Sequence[str],
        wallets: Sequence[str],
        happened: Counter[str],
        fickle: Collection[str] = (),
        *,
        holds_back: bool = False,
    ) -> None:
        super().__init__(open_door, at, ledger, rng)
        self.shops = [at]
        self._changes: Changes = ledger.changes
        self._assets = tuple(assets)
        self._wallets = tuple(wallets)
        self._happened = happened
        self._fickle = frozenset(map(wallet_in, fickle))
        self._keys = 0
        self._held = Held(self._changes, happened)
        for asset in assets:
            self._changes.course(at.merchant_id, asset.lower()).first = wallet_in(wallets[0])
        self._ways: tuple[Callable[[Furnished], Awaitable[None]], ...] = (
            self._replace,
            self._replace,
            self._replace_all,
            self._remove,
            self._add,
            self._add,
            self._close,
        )
        self._pause_max_s = PAUSE_MAX_S
        if holds_back:
            self._pause_max_s *= HASTE
            self._ways += (self._replace, self._replace, self._take_back, self._take_back, self._ask_again)

    def excuses(self, answered: Answered) -> bool:
        """Nodes that do not answer are nobody's fault here."""
        return answered.status in EXCUSED

    def recall(self) -> None:
        """The shops that were there when the backup was made, if one was brought back."""
        opened = [replace(self.at, merchant_id=one) for one in self._changes.merchants]
        self.shops[:] = [self.at, *opened]

    async def live(self, until: trio.Event) -> None:
        """Until all is calm; then everything is as it was answered, and everybody takes payments."""
        if self.ledger.restores:
            await self._come_back()
        if len(self.shops) == 1:
            await self._open_another()
        while not until.is_set():
            await trio.sleep(self.rng.random() * self._pause_max_s)
            shop = self.rng.choice(self.shops)
            await self.rng.choice(self._ways)(shop)
        for shop in self.shops:
            await self._look(shop)

    async def _come_back(self) -> None:
        """To where the shops were paid when the backup was made; all open again."""
        for shop in self.shops:
            there = {one["asset"].lower(): one for one in await self._read(shop)}
            for asset in map(str.lower, self._assets):
                course = self._changes.course(shop.merchant_id, asset)
                self._say(asset, self._held.restored(course, shown_in(there.get(asset))))
            await self._set_status(shop, "active")
        self._happened[RESTORED] += 1

    # What is changed.

    async def _open_another(self) -> None:
        """A second merchant of the account; sometimes its wallets are the first one's."""
        body = {"merchantName": "Other shop", "merchantEmail": "other@example.com"}
        made = await self.insist("POST", "/v1/merchants", body, idempotency_key=self._key())
        if made.status != 201:
            self.refuse(made, "merchant")
            return
        shop = replace(self.at, merchant_id=made.body["merchant"]["id"])
        await self._register(shop, self._assets)
        self.shops.append(shop)
        self._changes.merchants.append(shop.merchant_id)
        self._happened["second merchant"] += 1

    async def _replace(self, shop: Furnished) -> None:
        """One destination; what was there may have to be what is expected."""
        known = await self._look(shop)
        if known:
            await self._put(shop, self.rng.choice(known), self.rng.choice(self._wallets))
            self._happened["destination is replaced"] += 1

    async def _replace_all(self, shop: Furnished) -> None:
        """By one wallet, one after the other."""
        wallet = self.rng.choice(self._wallets)
        for one in await self._look(shop):
            await self._put(shop, one, wallet)
        self._happened["all destinations are replaced"] += 1

    async def _put(self, shop: Furnished, known: dict[str, Any], to: str) -> None:
        body = {"destination": to}
        if self.rng.random() < 0.3:
            body["expected"] = known.get("pending", known)["destination"]
        path = f"{_of(shop)}/crypto/{known['id']}"
        await self._change(shop, known["asset"], to, lambda: self.insist("PUT", path, body), {200})

    async def _take_back(self, shop: Furnished) -> None:
        """What waits; it may be too late for that."""
        waiting = [one for one in await self._look(shop) if "pending" in one]
        if not waiting:
            return
        one = self.rng.choice(waiting)
        asked_s, course = self._changes.now_s(), self._changes.course(shop.merchant_id, one["asset"].lower())
        course.is_taking_back = True
        answered = await self.insist("DELETE", f"{_of(shop)}/crypto/{one['id']}/pending")
        if answered.status not in {200, 404}:
            self.refuse(answered, "pending")
            return
        shown = answered.body if answered.status == 200 else await self._find(shop, one["asset"])
        course.is_taking_back = False
        self._say(one["asset"], self._held.taken_back(course, shown_in(shown), asked_s))

    async def _ask_again(self, shop: Furnished) -> None:
        """For what waits: it does not wait anew."""
        waiting = [one for one in await self._look(shop) if "pending" in one]
        if waiting:
            one = self.rng.choice(waiting)
            await self._put(shop, one, one["pending"]["destination"])

    async def _remove(self, shop: Furnished) -> None:
        known = await self._look(shop)
        if not known:
            return
        one = self.rng.choice(known)
        path = f"{_of(shop)}/crypto/{one['id']}"
        # It is not there where the first answer was lost.
        await self._change(shop, one["asset"], None, lambda: self.insist("DELETE", path), {200, 404})
        self._happened["destination is removed"] += 1

    async def _add(self, shop: Furnished) -> None:
        """What is missing, somewhere or other."""
        there = {one["asset"] for one in await self._look(shop)}
        missing = [one for one in self._assets if one not in there]
        if missing:
            await self._register(shop, self.rng.sample(missing, self.rng.randrange(1, len(missing) + 1)))
            self._happened["destination is added"] += 1

    async def _register(self, shop: Furnished, assets: Sequence[str]) -> None:
        """All or none, each at a wallet of its own or all at one."""
        one = self.rng.choice(self._wallets)
        to = {asset: self.rng.choice((one, one, *self._wallets)) for asset in assets}
        body = {"settlements": [{"asset": asset, "destination": to[asset]} for asset in assets]}
        key = self._key()
        courses = [self._changes.course(shop.merchant_id, asset.lower()) for asset in assets]
        asked_s = self._changes.now_s()
        for asset, course in zip(assets, courses, strict=True):
            course.change(wallet_in(to[asset]), asked_s)
        answered = await self.insist("POST", f"{_of(shop)}/crypto", body, idempotency_key=key)
        if answered.status == 201:
            for asset, course in zip(assets, courses, strict=True):
                self._say(asset, self._held.registered(course, asked_s))
            return
        if "until" not in answered.body.get("details", {}) or not self._held.comes_too_soon(courses, asked_s):
            self._unless_excused(answered, asked_s, {wallet_in(one) for one in to.values()})
        for course in courses:
            course.withdraw()
        await self._look(shop)

    async def _close(self, shop: Furnished) -> None:
        """Take no payments for a while."""
        for status in (self.rng.choice(("inactive", "suspended")), "active"):
            await self._set_status(shop, status)
            await trio.sleep(self.rng.random() * CLOSED_MAX_S)
        self._happened["merchant is closed"] += 1

    async def _set_status(self, shop: Furnished, status: str) -> None:
        course = self._changes.open(shop.merchant_id)
        course.change(status == "active", self._changes.now_s())
        answered = await self.insist("PATCH", f"/v1/merchants/{shop.merchant_id}", {"status": status})
        if answered.status != 200:
            self.refuse(answered, "status")
        course.done(self._changes.now_s())

    # How.

    async def _change(
        self,
        shop: Furnished,
        asset: str,
        to: str | None,
        ask: Callable[[], Awaitable[Answered]],
        good: set[int],
    ) -> None:
        """One destination; where the answer does not say that it was done, it is looked whether it was."""
        course = self._changes.course(shop.merchant_id, asset.lower())
        wallet, asked_s = None if to is None else wallet_in(to), self._changes.now_s()
        course.change(wallet, asked_s)
        answered = await ask()
        shown = answered.body if answered.status == 200 and to is not None else None
        if answered.status not in good:
            shown = await self._find(shop, asset)
            if wallet != asked_last(shown):
                # With `expected`, what was done before its answer was lost is refused when it is repeated.
                self._unless_excused(answered, asked_s, {wallet})
                course.withdraw()
                return
        if to is None:
            self._held.removed(course, asked_s)
        else:
            self._say(asset, self._held.changed(course, shown_in(shown), asked_s))

    async def _look(self, shop: Furnished) -> list[dict[str, Any]]:
        """What is registered, which is what was answered: nobody else changes it."""
        asked_s = self._changes.now_s()
        found = await self._read(shop)
        there = {one["asset"].lower(): one for one in found}
        for asset in self._assets:
            course = self._changes.course(shop.merchant_id, asset.lower())
            self._say(asset, self._held.looked(course, shown_in(there.get(asset.lower())), asked_s))
        return found

    def _say(self, asset: str, problem: str | None) -> None:
        if problem is not None:
            self.ledger.problems.append(f"destination: {asset} is {problem}")

    async def _find(self, shop: Furnished, asset: str) -> dict[str, Any] | None:
        return next((one for one in await self._read(shop) if one["asset"] == asset), None)

    async def _read(self, shop: Furnished) -> list[dict[str, Any]]:
        answered = await self.insist("GET", _of(shop))
        if answered.status != 200:
            self.refuse(answered, "settlements")
            return []
        found: list[dict[str, Any]] = answered.body["crypto"]
        return found

    def _unless_excused(self, answered: Answered, asked_s: float, to: Collection[str | None]) -> None:
        """Nodes that say nothing, wallets that take nothing, and an operator who has left the chain out, are
        no fault.
        """
        cannot = answered.status == 400 and not self._fickle.isdisjoint(to)
        if not (cannot or self.excuses(answered) or self._changes.may_be_unserved(asked_s)):
            self.refuse(answered, "destination")

    def _key(self) -> str:
        self._keys += 1
        return f"shopkeeper {self._keys}"


def _of(shop: Furnished) -> str:
    return f"/v1/merchants/{shop.merchant_id}/settlements"
