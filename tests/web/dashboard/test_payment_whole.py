"""Nothing is missing in a payment's timeline: held against its events, its deliveries and their attempts."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.receiver import Does, Received, Script
from tests.shop import BUYER, Shop
from tests.visitor import Page, Visitor, sign_in
from tests.web.hooked import Hooked, open_hooked

LINE = re.compile(
    r'<li class="\w+">\s*<p class="when"><time datetime="([^"]+)".*?<p class="title">([^<]*)</p>(.*?)</div>',
    re.S,
)
MOVES = {
    "requires_action": ("processing", "succeeded", "failed", "expired", "cancelled"),
    "processing": ("succeeded",),
}


def moody(chance: random.Random) -> Script:
    """A receiver that takes some, and refuses some."""

    def act(_: Received) -> Does:
        return chance.choice([Does(), Does(202), Does(500), Does(404), Does(429)])

    return act


def lines(page: Page) -> list[tuple[str, str, str]]:
    """Time, title and the rest of each line of a timeline, as they stand there."""
    found = page.html.partition('id="timeline"')[2]
    return [(at, title, re.sub(r"<[^>]*>", " ", rest)) for at, title, rest in LINE.findall(found)]


async def live_through(hooked: Hooked, visitor: Visitor, chance: random.Random, name: str) -> str:
    """A payment with a life of its own; its id."""
    shop = hooked.shop
    payment = await shop.pay(name)
    if chance.random() < 0.5:
        await shop.options(payment, [BUYER])
    while (status := await shop.status(payment)) in MOVES:
        await hooked.advance(chance.choice([0, 6, 400]))
        if chance.random() < 0.3:
            await _resend(hooked, visitor, payment)
        if (await shop.status(payment)) == status:
            to = chance.choice(MOVES[status])
            await visitor.post(f"/d/test/payments/{payment}/simulate", {"to": to})
    if status == "succeeded" and chance.random() < 0.5:
        await visitor.post(f"/d/test/payments/{payment}/refund", {"tx": "", "note": f"sorry for {name}"})
    await hooked.advance(chance.choice([0, 40_000]))
    await _resend(hooked, visitor, payment)
    return payment


async def _resend(hooked: Hooked, visitor: Visitor, payment: str) -> None:
    for one in (await hooked.deliveries(f"?paymentId={payment}"))[:1]:
        await visitor.post(f"/d/test/payments/{payment}/resend", {"delivery": one["id"]})


async def everything(shop: Shop, path: str) -> list[dict[str, Any]]:
    """All pages of a list of the API."""
    found, cursor = [], ""
    while True:
        page = (await shop.call("GET", f"{path}{cursor}")).body
        found += page["data"]
        if page["nextCursor"] is None:
            return found
        cursor = f"&cursor={page['nextCursor']}"


@pytest.mark.parametrize("seed", range(3))
async def test_each_version_event_delivery_and_attempt_is_a_line_of_its_own(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    async with open_hooked(tmp_path, moody(chance)) as hooked:
        shop, visitor = hooked.shop, await sign_in(hooked.shop)
        unheard = await shop.pay("before there was an endpoint")
        await hooked.register()
        payments = [unheard, *[await live_through(hooked, visitor, chance, f"LIFE-{n}") for n in range(6)]]
        events = await everything(shop, "/v1/events?limit=100")
        attempts = 0
        for payment in payments:
            story = lines(await visitor.get(f"/d/test/payments/{payment}"))
            its = [one for one in events if one["paymentId"] == payment]
            _check_events(story, its)
            attempts += await _check_deliveries(shop, story, payment)
            assert [at for at, _, _ in story] == sorted(at for at, _, _ in story)
    assert attempts > len(payments)


def _check_events(story: list[tuple[str, str, str]], events: list[dict[str, Any]]) -> None:
    told = sorted((at, title, rest.split()[-1]) for at, title, rest in story if title.startswith("Event "))
    assert told == sorted((one["createdAt"], f"Event {one['type']}", one["id"]) for one in events)
    versions = [
        int(found[1]) for _, title, rest in story if (found := re.search(r"Version (\d+), after", rest))
    ]
    kept = sorted(one["envelope"]["data"]["payment_state_version"] for one in events)
    assert versions == kept == list(range(len(events)))


async def _check_deliveries(shop: Shop, story: list[tuple[str, str, str]], payment: str) -> int:
    owed = {rest.split()[-1]: title for _, title, rest in story if title.endswith(" is owed")}
    kept = await everything(shop, f"/v1/webhooks/deliveries?limit=100&paymentId={payment}")
    assert owed == {one["id"]: f"Webhook {one['eventType']} is owed" for one in kept}
    wanted = Counter[tuple[str, str, int]]()
    for one in kept:
        log = (await shop.call("GET", f"/v1/webhooks/deliveries/{one['id']}")).body["attemptLog"]
        for tried in log:
            outcome = tried["status"] or tried["errorClass"]
            wanted[tried["at"], f"Webhook {one['eventType']}: {outcome}", tried["n"]] += 1
    told = Counter(
        (at, title, int(found[1]))
        for at, title, rest in story
        if (found := re.search(r"Attempt (\d+), \w+, in \d+ ms", rest))
    )
    assert told == wanted
    return wanted.total()
