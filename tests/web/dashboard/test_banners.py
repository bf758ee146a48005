"""What is said on every page."""

from __future__ import annotations

from pathlib import Path

import msgspec

from payd.core.endpoint import ALL, DISABLE_AFTER_MS, Endpoint, EndpointState
from payd.core.event import iso_ms
from payd.web.dashboard.banners import endpoint_banners
from tests.receiver import Does, always
from tests.visitor import sign_in
from tests.web.hooked import open_hooked

HOUR_MS = 3_600_000
NOW_MS = 1_780_000_000_000
WORKING = Endpoint("ep_1", "acct_1", "https://a.test/", ALL, EndpointState.ENABLED, None, None, None, 0)


def test_a_failing_endpoint_is_told_with_when_it_will_be_disabled() -> None:
    since_ms = NOW_MS - 76 * HOUR_MS
    failing = msgspec.structs.replace(WORKING, failing_since_ms=since_ms)
    [banner] = endpoint_banners(failing, NOW_MS, "/d/live/webhooks", "live")
    assert banner.words == "The webhook endpoint has been failing for 3 d 4 h; it will be disabled on"
    assert banner.at_ms == since_ms + DISABLE_AFTER_MS
    assert (banner.kind, banner.href) == ("wait", "/d/live/webhooks")


def test_a_disabled_endpoint_is_told_in_its_mode() -> None:
    off = msgspec.structs.replace(WORKING, state=EndpointState.DISABLED, off_since_ms=NOW_MS - 2 * HOUR_MS)
    [banner] = endpoint_banners(off, NOW_MS, "/d/test/webhooks", "test")
    assert banner.words == "The test webhook endpoint has been disabled for 2 h: no webhooks are sent."
    assert banner.kind == "bad"


def test_one_that_works_or_was_paused_on_purpose_needs_no_banner() -> None:
    assert endpoint_banners(WORKING, NOW_MS, "", "test") == ()
    paused = msgspec.structs.replace(WORKING, state=EndpointState.PAUSED, failing_since_ms=1)
    assert endpoint_banners(paused, NOW_MS, "", "test") == ()


async def test_every_page_of_the_mode_has_it_from_the_first_failure_until_it_works(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(500)), live=True) as hooked:
        visitor = await sign_in(hooked.shop)
        await hooked.register()
        assert "failing" not in (await visitor.get("/d/test/")).text
        await hooked.shop.pay()
        await hooked.drained()
        at_ms = hooked.shop.realm.clock.now_ms()
        page = await visitor.get("/d/test/")
        assert "The test webhook endpoint has been failing" in page.text
        assert iso_ms(at_ms + DISABLE_AFTER_MS)[:17] in page.html
        assert "failing" not in (await visitor.get("/d/live/")).text
        other = await sign_in(hooked.shop, account_id=list(hooked.shop.house.accounts)[-1])
        assert other.account_id != hooked.shop.account_id
        assert "failing" not in (await other.get("/d/test/")).text
