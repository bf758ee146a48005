"""Repairs of a webhook endpoint, from the commands down to what its receiver gets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from payd.core.event import iso_ms
from tests.terminal import Terminal
from tests.web.hooked import HOOK, Hooked, open_hooked

URL = "http://127.0.0.1:9/hook"
HOUR_S = 3600


@pytest.fixture
async def hooked(tmp_path: Path) -> AsyncIterator[Hooked]:
    async with open_hooked(tmp_path) as opened:
        yield opened


def test_an_endpoint_is_paused_and_resumed(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    shown = begun("webhook", "pause").output
    assert "paused" in shown
    assert "payd webhook resume --mode test" in shown
    assert begun.json("webhook", "show")["state"] == "paused"
    assert begun.json("webhook", "resume")["state"] == "enabled"


def test_headers_are_set_shown_by_name_kept_and_taken_away(begun: Terminal) -> None:
    typed = ["--header", "X-Shop: hunter2", "--header", "Authorization: Bearer abc"]
    made = begun.json("webhook", "set", "--url", URL, *typed)
    assert sorted(name.lower() for name in made["headers"]) == ["authorization", "x-shop"]
    shown = begun("webhook", "show").output
    assert "hunter2" not in shown
    assert len(begun.json("webhook", "set", "--url", URL)["headers"]) == 2, "unsaid, they stay"
    assert begun.json("webhook", "set", "--url", URL, "--no-headers")["headers"] == []


def test_a_header_that_payd_sets_itself_is_refused_without_its_value(begun: Terminal) -> None:
    said = begun.error("webhook", "set", "--url", URL, "--header", "webhook-id: hunter2")
    assert "webhook-id" in said
    assert "hunter2" not in said


def test_without_jobs_the_list_says_how_to_begin(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    assert "payd webhook recover --since 2h" in begun("webhook", "jobs").output
    assert "no such job" in begun.error("webhook", "cancel-job", "job_0")


def test_a_switched_off_endpoint_says_since_when(begun: Terminal) -> None:
    begun("webhook", "set", "--url", URL)
    assert "It is off since 20" in begun("webhook", "disable").output
    assert begun.json("webhook", "enable")["missedEvents"] in (0, None)


async def test_events_of_a_pause_are_kept_and_sent_on_resume(hooked: Hooked) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    await hooked.shop.do("webhook.pause")
    await hooked.shop.pay()
    await hooked.advance(60)
    assert hooked.receiver.received == []
    [kept] = (await hooked.shop.do("webhook.deliveries"))["data"]
    assert kept["state"] == "pending"
    await hooked.shop.do("webhook.resume")
    await hooked.advance(60)
    assert len(hooked.receiver.received) == 1


async def test_own_headers_arrive_with_each_delivery(hooked: Hooked) -> None:
    await hooked.shop.do("webhook.set", url=HOOK, headers={"X-Shop": "one"})
    await hooked.shop.do("webhook.test")
    assert hooked.receiver.received[-1].headers["x-shop"] == "one"


async def test_what_was_missed_is_counted_previewed_and_replayed(hooked: Hooked) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    made_at = iso_ms(hooked.shop.realm.clock.now_ms())
    await hooked.shop.do("webhook.disable")
    await hooked.advance(1)
    await hooked.shop.pay("O-1")
    await hooked.shop.pay("O-2")
    enabled = await hooked.shop.do("webhook.enable")
    assert (enabled["missedEvents"], enabled["missedSince"]) == (2, made_at)

    seen = await hooked.shop.do("webhook.replay-missing", since=enabled["missedSince"], preview=True)
    assert (seen["kind"], seen["since"], seen["matched"]) == ("replay-missing", made_at, 2)
    assert await hooked.shop.do("webhook.jobs") == [], "only counted"

    job = await hooked.shop.do("webhook.replay-missing", since=enabled["missedSince"])
    await hooked.advance(60)
    assert (await hooked.shop.do("webhook.watch", id=job["id"]))["done"] == 2
    [listed] = await hooked.shop.do("webhook.jobs")
    assert (listed["id"], listed["state"]) == (job["id"], "done")


async def test_a_preview_of_what_failed_starts_nothing(hooked: Hooked) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    seen = await hooked.shop.do("webhook.recover", since="1h", preview=True)
    assert (seen["kind"], seen["matched"], "id" in seen) == ("recover", 0, False)
    assert await hooked.shop.do("webhook.jobs") == []


async def test_a_job_is_cancelled(hooked: Hooked) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    await hooked.shop.do("webhook.disable")
    await hooked.shop.pay()
    await hooked.shop.do("webhook.enable")
    job = await hooked.shop.do("webhook.replay-missing", since="1h")
    assert (await hooked.shop.do("webhook.cancel-job", id=job["id"]))["state"] == "cancelled"
    await hooked.advance(HOUR_S)
    assert (await hooked.shop.do("webhook.job", id=job["id"]))["state"] == "cancelled"
