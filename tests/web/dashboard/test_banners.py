"""What is said on every page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from payd.core.endpoint import ALL, DISABLE_AFTER_MS, Endpoint, EndpointState
from payd.core.event import iso_ms
from payd.web.dashboard.banners import endpoint_banners
from payd.web.dashboard.routes import PAGES
from tests.receiver import Does, always
from tests.visitor import Visitor, sign_in
from tests.web.hooked import Hooked, open_hooked

HOUR_MS = 3_600_000
NOW_MS = 1_780_000_000_000
WORKING = Endpoint("ep_1", "acct_1", "https://a.test/", ALL, EndpointState.ENABLED, None, None, None, 0)


def test_a_failing_endpoint_is_told_with_when_it_will_be_disabled() -> None:
    since_ms = NOW_MS - 76 * HOUR_MS
    failing = msgspec.structs.replace(WORKING, failing_since_ms=since_ms, last_failure_at_ms=NOW_MS - HOUR_MS)
    [banner] = endpoint_banners(failing, NOW_MS, "/d/live/webhooks", "live")
    assert (
        banner.words
        == "The webhook endpoint has been failing for 3 d 4 h; if that goes on, it will be disabled on"
    )
    assert banner.at_ms == since_ms + DISABLE_AFTER_MS
    assert (banner.kind, banner.href) == ("wait", "/d/live/webhooks")


def test_one_that_fails_for_the_first_time_is_not_said_to_have_failed_for_no_time() -> None:
    failing = msgspec.structs.replace(WORKING, failing_since_ms=NOW_MS - 59_999, last_failure_at_ms=NOW_MS)
    [banner] = endpoint_banners(failing, NOW_MS, "", "test")
    assert (
        banner.words
        == "The test webhook endpoint has just begun to fail; if that goes on, it will be disabled on"
    )
    [banner] = endpoint_banners(failing, NOW_MS + 1, "", "test")
    assert (
        banner.words
        == "The test webhook endpoint has been failing for 1 min; if that goes on, it will be disabled on"
    )


def test_one_that_nothing_was_sent_to_since_its_failures_is_not_told_a_day_that_is_none() -> None:
    since_ms = NOW_MS - 200 * HOUR_MS
    failing = msgspec.structs.replace(WORKING, failing_since_ms=since_ms, last_failure_at_ms=since_ms)
    [banner] = endpoint_banners(failing, NOW_MS, "", "live")
    assert (banner.words, banner.at_ms) == ("The webhook endpoint has been failing for 8 d 8 h", None)


def test_a_disabled_endpoint_is_told_in_its_mode() -> None:
    off = msgspec.structs.replace(WORKING, state=EndpointState.DISABLED, off_since_ms=NOW_MS - 2 * HOUR_MS)
    [banner] = endpoint_banners(off, NOW_MS, "/d/test/webhooks", "test")
    assert banner.words == "The test webhook endpoint has been disabled for 2 h: no webhooks are sent."
    assert banner.kind == "bad"


def test_one_that_works_or_was_paused_on_purpose_needs_no_banner() -> None:
    assert endpoint_banners(WORKING, NOW_MS, "", "test") == ()
    paused = msgspec.structs.replace(WORKING, state=EndpointState.PAUSED, failing_since_ms=1)
    assert endpoint_banners(paused, NOW_MS, "", "test") == ()


def pages_of(mode: str, ids: Mapping[str, str]) -> list[str]:
    """Every page of a mode that is read by people."""
    found = (page.path for page in PAGES if page.in_mode and page.method == "GET")
    return [path.format(mode=mode, **ids) for path in found if not path.endswith(".csv")]


async def banner_on(visitor: Visitor, path: str) -> bool:
    """Whether a page that is there says that the endpoint fails."""
    page = await visitor.follow(path)
    assert page.status == 200, path
    assert "</html>" in page.html, path
    return re.search("webhook endpoint has (just begun to fail|been failing)", page.text) is not None


async def ids_of(hooked: Hooked) -> dict[str, str]:
    """What the paths of the test mode's pages ask for, of a payment whose webhook was tried."""
    merchant, paid = hooked.shop.merchant_id, await hooked.shop.pay()
    await hooked.shop.call("POST", f"/v1/test/payments/{paid}/simulate", {"to": "succeeded"})
    await hooked.drained()
    delivery = (await hooked.deliveries())[0]
    kept = (await hooked.shop.call("GET", f"/v1/merchants/{merchant}/settlements")).body["crypto"]
    ids = {"merchant": merchant, "payment": paid, "destination": kept[0]["id"]}
    return ids | {"delivery": delivery["id"], "event": delivery["eventId"]}


async def test_every_page_of_the_mode_has_it_from_the_first_failure_until_it_works(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(500)), live=True) as hooked:
        visitor = await sign_in(hooked.shop)
        await hooked.register()
        assert not await banner_on(visitor, "/d/test/")
        at_ms = hooked.shop.realm.clock.now_ms()
        pages = pages_of("test", await ids_of(hooked))
        assert len(pages) > 15
        assert [path for path in pages if not await banner_on(visitor, path)] == []
        assert iso_ms(at_ms + DISABLE_AFTER_MS)[:17] in (await visitor.get("/d/test/")).html
        assert not await banner_on(visitor, "/d/live/")
        assert not await banner_on(visitor, "/d/live/payments")
        other = await sign_in(hooked.shop, account_id=list(hooked.shop.house.accounts)[-1])
        assert other.account_id != hooked.shop.account_id
        assert not await banner_on(other, "/d/test/")

        hooked.receiver.script = always(Does())
        await hooked.advance(HOUR_MS / 1000)
        assert [path for path in pages if await banner_on(visitor, path)] == []
