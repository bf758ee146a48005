"""The operator's commands on webhooks, each by its name, against deliveries that are really made."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from payd.actors.feed import Listener
from payd.core.errors import InvalidParams, NotFound
from payd.core.event import iso_ms
from payd.web.commands import run_command
from payd.web.webhook_commands import DELIVERIES_SHOWN, NO_ENDPOINT, WEBHOOK_COMMANDS
from tests.receiver import Does, always, in_turn
from tests.web.hooked import HOOK, Hooked, open_hooked

HOUR_S = 3600


@pytest.fixture
async def hooked(tmp_path: Path) -> AsyncIterator[Hooked]:
    """A shop whose receiver fails once and then works."""
    async with open_hooked(tmp_path, in_turn(Does(status=500), Does())) as opened:
        yield opened


async def test_every_command_is_named_after_its_subject() -> None:
    assert all(name.startswith("webhook.") for name in WEBHOOK_COMMANDS)


async def test_an_endpoint_is_set_and_its_secret_seen_each_time(hooked: Hooked) -> None:
    made = await hooked.shop.do("webhook.set", url=HOOK)
    again = await hooked.shop.do("webhook.set", url=HOOK, events=["payment.created"])
    assert (again["id"], again["secret"]) == (made["id"], made["secret"])
    assert again["events"] == ["payment.created"]


async def test_a_failed_delivery_is_found_shown_and_sent_again(hooked: Hooked) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    payment_id = await hooked.shop.pay()
    await hooked.drained()
    found = await hooked.shop.do("webhook.deliveries", state="pending", payment=payment_id, limit=5)
    [pending] = found["data"]
    nothing: dict[str, Any] = {"data": [], "nextCursor": None}
    assert await hooked.shop.do("webhook.deliveries", state="failed") == nothing
    assert await hooked.shop.do("webhook.deliveries", payment="pay_t0") == nothing

    shown = await hooked.shop.do("webhook.delivery", id=pending["id"])
    assert [(one["status"], one["errorClass"]) for one in shown["attemptLog"]] == [(500, "http_status")]
    resent = await hooked.shop.do("webhook.resend", id=pending["id"])
    assert resent["state"] == "succeeded"
    assert [one["trigger"] for one in resent["attemptLog"]] == ["auto", "manual"]


async def test_an_event_that_no_endpoint_can_be_sent_is_told_again_to_who_listens(hooked: Hooked) -> None:
    await hooked.shop.pay()
    [event] = (await hooked.shop.call("GET", "/v1/events")).body["data"]
    with pytest.raises(NotFound):
        await hooked.shop.do("webhook.resend", id=event["id"])

    listener = Listener(lambda: None)
    hooked.shop.realm.account_feed.subscribe(hooked.shop.account_id, listener)
    told = {"eventId": event["id"], "listeners": 1, "why": NO_ENDPOINT}
    assert await hooked.shop.do("webhook.resend", id=event["id"]) == told
    assert len(listener.take_resends(9)) == 1

    await hooked.shop.do("webhook.set", url=HOOK)
    await hooked.shop.do("webhook.replay-missing", since="1h")
    await hooked.drained()
    await hooked.shop.do("webhook.pause")
    paused = await hooked.shop.do("webhook.resend", id=event["id"])
    assert paused["why"].startswith("The delivery's endpoint is paused; ")
    await hooked.shop.do("webhook.resume")
    assert (await hooked.shop.do("webhook.resend", id=event["id"]))["eventId"] == event["id"]
    assert len(listener.take_resends(9)) == 2
    with pytest.raises(NotFound):
        await hooked.shop.do("webhook.resend", id="evt_0")


async def test_a_screen_of_deliveries_is_shown_unless_told_otherwise(hooked: Hooked) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    for n in range(DELIVERIES_SHOWN + 1):
        await hooked.shop.pay(f"O-{n}")
    shown = await hooked.shop.do("webhook.deliveries")
    assert len(shown["data"]) == DELIVERIES_SHOWN
    [oldest] = (await hooked.shop.do("webhook.deliveries", cursor=shown["nextCursor"]))["data"]
    everything = (await hooked.shop.do("webhook.deliveries", limit=100))["data"]
    assert [one["id"] for one in everything] == [one["id"] for one in (*shown["data"], oldest)]
    with pytest.raises(InvalidParams, match="limit"):
        await hooked.shop.do("webhook.deliveries", limit=101)


async def test_an_unknown_delivery_or_job_is_refused_whatever_its_name(hooked: Hooked) -> None:
    for command in ("webhook.delivery", "webhook.resend", "webhook.job"):
        for name in ("dlv_0", "a/b", "%2F", " "):
            with pytest.raises(NotFound):
                await hooked.shop.do(command, id=name)


@pytest.mark.parametrize("seconds", [False, True])
async def test_a_replay_reaches_back_from_the_realms_time(hooked: Hooked, seconds: bool) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    await hooked.advance(HOUR_S)
    now_ms = hooked.shop.realm.clock.now_ms()
    since = str(now_ms // 1000 - 2 * HOUR_S) if seconds else "2h"
    job = await hooked.shop.do("webhook.recover", since=since)
    assert job["since"] == iso_ms((now_ms // 1000 - 2 * HOUR_S) * 1000 if seconds else now_ms - 7_200_000)
    await hooked.drained()
    done = await hooked.shop.do("webhook.job", id=job["id"])
    assert (done["state"], done["matched"]) == ("done", 0)


@pytest.mark.parametrize("since", ["2099-01-01T00:00:00Z", "15d", "yesterday", "2026-01-01", "-5", "٥"])
async def test_a_replay_that_reaches_too_far_or_nowhere_is_refused(hooked: Hooked, since: str) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    with pytest.raises(InvalidParams, match="since"):
        await hooked.shop.do("webhook.replay-missing", since=since)


async def test_what_was_missed_is_replayed_by_its_job(hooked: Hooked) -> None:
    await hooked.shop.pay()
    await hooked.shop.do("webhook.set", url=HOOK)
    job = await hooked.shop.do("webhook.replay-missing", since="1h")
    await hooked.advance(60)
    done = await hooked.shop.do("webhook.job", id=job["id"])
    assert (done["state"], done["matched"], done["done"], done["failed"]) == ("done", 1, 1, 0)


async def test_enabling_counts_what_was_missed_and_what_failed_for_good(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(status=500))) as hooked:
        await hooked.shop.do("webhook.set", url=HOOK, events=["payment.created"])
        await hooked.shop.pay("O-1")
        await hooked.advance(30 * HOUR_S)
        await hooked.shop.do("webhook.disable")
        await hooked.shop.pay("O-2")
        await hooked.shop.pay("O-3")
        enabled = await hooked.shop.do("webhook.enable")
        assert (enabled["missedEvents"], enabled["failedDeliveries"]) == (2, 1)


async def test_an_endpoint_is_shown_with_the_realms_time(hooked: Hooked) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    await hooked.advance(HOUR_S)
    assert (await hooked.shop.do("webhook.show"))["now"] == iso_ms(hooked.shop.realm.clock.now_ms())


async def test_a_delivery_is_explained_by_what_arrived(hooked: Hooked) -> None:
    await hooked.shop.do("webhook.set", url=HOOK)
    await hooked.shop.pay()
    await hooked.drained()
    last = hooked.receiver.received[-1]
    given = {name: last.headers[f"webhook-{name}"] for name in ("id", "timestamp", "signature")}
    said = await hooked.shop.do("webhook.explain", **given, bodyB64=base64.b64encode(last.body).decode())
    assert (said["match"], said["given"], said["deliveryState"]) == ("current", None, "pending")
    with pytest.raises(InvalidParams, match="base64"):
        await hooked.shop.do("webhook.explain", **given, bodyB64="!")


async def test_hosts_of_endpoints_are_shown_once_each_without_their_paths(hooked: Hooked) -> None:
    async def origins() -> Any:
        return msgspec.to_builtins(
            await run_command(hooked.shop.house, "webhook.origins", b'{"mode": "test"}')
        )

    assert await origins() == []
    await hooked.shop.do("webhook.set", url=HOOK + "/s3cret?key=1")
    assert await origins() == ["http://a.test:80"]
    await hooked.shop.do("webhook.set", url="http://[2606:4700::1111]:8443/x")
    assert await origins() == ["http://[2606:4700::1111]:8443"]
    await hooked.shop.do("webhook.pause")
    assert await origins() == []
