"""The page of the webhook endpoint: what it shows to whom, and what its forms do."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from payd.config import load
from payd.core.endpoint import EVENT_TYPES, EndpointState
from payd.core.roles import Role
from payd.store.db import Tx
from payd.store.endpoints import find_endpoint
from tests.receiver import Does, always
from tests.shop import Shop
from tests.visitor import Visitor, sign_in
from tests.web.hooked import ENDPOINT, HOOK, Hooked, open_hooked

PAGE = "/d/test/webhooks"
HOSTILE = b"</code></pre><script>alert(1)</script><img src=x onerror=alert(2)>\x00\xff" + b"A" * 5000


@pytest.fixture
async def hooked(tmp_path: Path) -> AsyncIterator[Hooked]:
    async with open_hooked(tmp_path) as opened:
        yield opened


def endpoint_of(shop: Shop) -> Any:
    return shop.realm.db.point(find_endpoint, shop.account_id)


def audited(shop: Shop) -> list[tuple[str, str]]:
    """Who did what with webhooks."""

    def rows(tx: Tx) -> list[tuple[str, str]]:
        return tx.execute(
            "SELECT actor, act FROM audit WHERE act LIKE 'endpoint.%' OR act LIKE 'webhook.%' ORDER BY seq"
        ).fetchall()

    return shop.realm.db.point(rows)


def secret_in(text: str) -> str:
    found = re.search(r"<code>(whsec_[A-Za-z0-9+/=]+)</code>", html.unescape(text))
    return "" if found is None else found[1]


async def test_without_an_endpoint_the_page_teaches_and_has_the_form(hooked: Hooked) -> None:
    page = await (await sign_in(hooked.shop)).get(PAGE)
    assert "Add your endpoint" in page.text
    assert "allow_http in [webhooks.test]" in page.text
    assert page.html.count('name="events"') == len(EVENT_TYPES) == page.html.count(" checked")
    viewer = await (await sign_in(hooked.shop, Role.VIEWER)).get(PAGE)
    assert "There is no webhook endpoint" in viewer.text
    assert 'name="url"' not in viewer.html


async def test_who_has_a_receiver_on_a_laptop_reads_what_to_write_and_that_is_enough(
    shop: Shop, tmp_path: Path
) -> None:
    shown = (await (await sign_in(shop)).get(PAGE)).html
    [lines] = re.findall(r'aria-label="Lines of payd.toml"><code>(.*?)</code>', shown, re.S)
    (tmp_path / "payd.toml").write_text(html.unescape(lines))
    told = load(tmp_path / "payd.toml").webhooks.test
    assert told.allow_http
    assert [str(one) for one in told.allow_networks] == ["127.0.0.0/8", "::1/128"]
    assert load(tmp_path / "payd.toml").webhooks.live.allow_networks == ()


async def test_one_is_added_and_its_secret_is_shown_once(hooked: Hooked) -> None:
    visitor = await sign_in(hooked.shop)
    made = await visitor.post(PAGE, {"url": HOOK, "events": ["payment.created", "payment.settled"]})
    secret = secret_in(made.html)
    revealed = await hooked.shop.call("POST", f"{ENDPOINT}/reveal")
    assert secret == revealed.body["secret"]
    assert endpoint_of(hooked.shop).events == ("payment.created", "payment.settled")
    again = await visitor.get(PAGE)
    assert secret not in again.html
    assert "whsec_••••" in again.text
    assert made.got.headers["cache-control"] == "no-store"
    assert audited(hooked.shop)[0] == (visitor.user_id, "endpoint.register")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://a.test/", "must begin with https"),
        ("https://inside.test/<hook>", "allow_networks in [webhooks.test]"),
        ("https://169.254.169.254/", "payd never calls"),
        ("https://me:secret@a.test/", "user name or password"),
    ],
)
async def test_a_url_that_is_refused_says_why_and_stays_typed(hooked: Hooked, url: str, says: str) -> None:
    visitor = await sign_in(hooked.shop)
    page = await visitor.post(PAGE, {"url": url, "events": "payment.failed"})
    assert page.status == 400
    assert says in page.text
    assert f'value="{html.escape(url)}"' in page.html
    assert page.html.count(" checked") == 1
    assert endpoint_of(hooked.shop) is None


async def test_at_least_one_event_has_to_be_chosen(hooked: Hooked) -> None:
    page = await (await sign_in(hooked.shop)).post(PAGE, {"url": HOOK})
    assert (page.status, "at least one event type" in page.text) == (400, True)


async def test_url_and_events_are_changed_and_audited(hooked: Hooked) -> None:
    await hooked.register()
    visitor = await sign_in(hooked.shop, Role.DEVELOPER)
    page = await visitor.post(PAGE, {"url": "https://b.test/x", "events": ["payment.failed"]})
    assert (page.status, page.to) == (303, PAGE)
    assert (endpoint_of(hooked.shop).url, endpoint_of(hooked.shop).events) == (
        "https://b.test/x",
        ("payment.failed",),
    )
    assert audited(hooked.shop)[-2:] == [
        (visitor.user_id, "endpoint.url"),
        (visitor.user_id, "endpoint.events"),
    ]


async def test_a_form_that_was_open_for_long_undoes_nothing(hooked: Hooked) -> None:
    visitor, other = [await sign_in(hooked.shop, Role.DEVELOPER) for _ in range(2)]
    await visitor.post(PAGE, {"url": HOOK, "events": ["payment.created", "payment.failed"]})
    page = await visitor.get(PAGE)
    was = {name: page.hidden(name) for name in ("was_url", "was_events")}
    events = was["was_events"].split()
    moved = "https://b.test/x"
    await other.post(PAGE, {"url": moved, "events": events})

    await visitor.post(PAGE, was | {"url": HOOK, "events": ["payment.failed"]})
    endpoint = endpoint_of(hooked.shop)
    assert (endpoint.url, endpoint.events) == (moved, ("payment.failed",))
    await visitor.post(PAGE, was | {"url": "https://c.test/x", "events": events})
    endpoint = endpoint_of(hooked.shop)
    assert (endpoint.url, endpoint.events) == ("https://c.test/x", ("payment.failed",))


async def test_a_form_for_an_endpoint_that_was_deleted_meanwhile_brings_none_back(hooked: Hooked) -> None:
    await hooked.register()
    visitor = await sign_in(hooked.shop, Role.DEVELOPER)
    page = await visitor.get(PAGE)
    was = {name: page.hidden(name) for name in ("was_url", "was_events")}
    await hooked.shop.call("DELETE", ENDPOINT)
    sent = was | {"url": HOOK, "events": ["payment.failed"]}
    found = await visitor.post(PAGE, sent)
    assert (found.status, "This endpoint is not there any more." in found.text) == (404, True)
    assert endpoint_of(hooked.shop) is None


async def test_of_two_who_add_an_endpoint_the_second_takes_the_firsts_place_only_knowingly(
    hooked: Hooked,
) -> None:
    one, other = [await sign_in(hooked.shop, Role.DEVELOPER) for _ in range(2)]
    first = {"url": HOOK, "events": [*EVENT_TYPES], "adds": "yes"}
    assert (await one.post(PAGE, first)).status == 200
    found = await other.post(PAGE, first | {"url": "https://b.test/x"})
    assert (found.status, "Somebody added an endpoint meanwhile" in found.text) == (400, True)
    assert endpoint_of(hooked.shop).url == HOOK
    assert (await one.post(PAGE, first)).to == PAGE, "sent twice, it is saved twice"


async def test_who_may_not_change_it_sees_no_form_no_secret_and_no_query(hooked: Hooked) -> None:
    await hooked.register(url="http://a.test/hook?token=hush")
    page = await (await sign_in(hooked.shop, Role.VIEWER)).get(PAGE)
    assert "http://a.test/hook?…" in page.text
    assert "hush" not in page.html
    assert f'action="{PAGE}' not in page.html
    assert "hush" in (await (await sign_in(hooked.shop, Role.DEVELOPER)).get(PAGE)).html


async def test_reveal_shows_the_secret_in_that_answer_alone_and_is_audited(hooked: Hooked) -> None:
    made = await hooked.register()
    visitor = await sign_in(hooked.shop, Role.DEVELOPER)
    page = await visitor.post(f"{PAGE}/reveal")
    assert secret_in(page.html) == made["secret"]
    assert made["secret"] not in (await visitor.get(PAGE)).html
    assert audited(hooked.shop)[-1] == (visitor.user_id, "endpoint.reveal")


async def test_rotate_says_until_when_the_old_one_works(hooked: Hooked) -> None:
    made = await hooked.register()
    visitor = await sign_in(hooked.shop)
    page = await visitor.post(f"{PAGE}/rotate")
    assert secret_in(page.html) not in ("", made["secret"])
    assert re.search(r"The old secret works until .* \(1 d\)", page.text)
    await hooked.advance(61)
    assert "(23 h 58 min)" in (await visitor.get(PAGE)).text
    await hooked.advance(24 * 3600)
    assert "old secret works" not in (await visitor.get(PAGE)).text


@pytest.mark.parametrize("event_type", EVENT_TYPES)
async def test_a_test_event_of_each_type_has_its_result_in_the_page(hooked: Hooked, event_type: str) -> None:
    await hooked.register()
    visitor = await sign_in(hooked.shop)
    page = await visitor.post(f"{PAGE}/test", {"type": event_type})
    assert re.search(rf"200 in \d+ ms · {event_type}", page.text)
    assert "ok" in page.text
    [received] = hooked.receiver.received
    assert f'"type":"{event_type}"'.encode() in received.body
    assert audited(hooked.shop)[-1] == (visitor.user_id, "webhook.test")


async def test_a_receivers_answer_is_shown_as_text_and_cut(tmp_path: Path) -> None:
    async with open_hooked(tmp_path, always(Does(500, body=HOSTILE))) as hooked:
        await hooked.register()
        page = await (await sign_in(hooked.shop)).post(f"{PAGE}/test", {"type": "payment.failed"})
    assert "500 in" in page.text
    assert "Your receiver crashed" in page.text
    assert "<script>alert" not in page.html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img" in page.html
    assert 1500 < page.html.count("A") < 2600
    assert "This is its beginning." in page.text


async def test_a_test_without_an_answer_says_what_to_do(hooked: Hooked) -> None:
    await hooked.register(url="http://gone.test/hook")
    page = await (await sign_in(hooked.shop)).post(f"{PAGE}/test", {"type": "payment.failed"})
    assert page.status == 200
    assert "No answer in" in page.text
    assert "Is the host spelled right" in page.text


async def test_an_event_type_that_is_none_is_refused(hooked: Hooked) -> None:
    await hooked.register()
    page = await (await sign_in(hooked.shop)).post(f"{PAGE}/test", {"type": "<b>"})
    assert (page.status, "must be one of payment.created" in page.text) == (400, True)


async def test_paused_and_resumed(hooked: Hooked) -> None:
    await hooked.register()
    visitor = await sign_in(hooked.shop)
    assert (await visitor.post(f"{PAGE}/pause")).to == PAGE
    page = await visitor.get(PAGE)
    assert "It is paused since" in page.text
    assert f'action="{PAGE}/resume"' in page.html
    assert f'action="{PAGE}/pause"' not in page.html
    await visitor.post(f"{PAGE}/resume")
    assert endpoint_of(hooked.shop).state is EndpointState.ENABLED


async def test_disabled_after_five_days_it_says_what_it_missed_and_leads_there_when_enabled(
    tmp_path: Path,
) -> None:
    async with open_hooked(tmp_path, always(Does(500))) as hooked:
        await hooked.register()
        visitor = await sign_in(hooked.shop)
        for day in range(6):
            await hooked.shop.pay()
            await hooked.advance(86_000)
            if day == 3:
                assert "It has been failing since" in (await visitor.get(PAGE)).text
        assert endpoint_of(hooked.shop).state is EndpointState.DISABLED
        page = await visitor.get(PAGE)
        assert "It is disabled since" in page.text
        assert "The test webhook endpoint has been disabled" in page.text
        assert re.search(r"It missed \d+ events? of the last 14 days", page.text)
        enabled = await visitor.post(f"{PAGE}/enable")
        assert enabled.to == "/d/test/webhooks/replay?kind=replay-missing&reach=14d"
        assert endpoint_of(hooked.shop).state is EndpointState.ENABLED
        assert audited(hooked.shop)[-1] == (visitor.user_id, "endpoint.enable")


async def test_enabled_again_with_nothing_missed_says_so(hooked: Hooked) -> None:
    await hooked.register()
    visitor = await sign_in(hooked.shop)
    await visitor.post(f"{PAGE}/disable")
    assert (await visitor.post(f"{PAGE}/enable")).to == PAGE
    assert "It missed no events." in (await visitor.get(PAGE)).text


async def test_it_is_deleted_only_by_its_host_typed_out(hooked: Hooked) -> None:
    made = await hooked.register()
    visitor = await sign_in(hooked.shop)
    for wrong in ("", "a", "b.test", "http://a.test/hook"):
        page = await visitor.post(f"{PAGE}/delete", {"endpoint": made["id"], "host": wrong})
        assert (page.status, "type its host: a.test" in page.text) == (400, True)
    stale = await visitor.post(f"{PAGE}/delete", {"endpoint": "ep_other", "host": "a.test"})
    assert stale.status == 404
    assert endpoint_of(hooked.shop) is not None
    page = await visitor.post(f"{PAGE}/delete", {"endpoint": made["id"], "host": "A.test"})
    assert page.to == PAGE
    assert endpoint_of(hooked.shop) is None
    assert audited(hooked.shop)[-1] == (visitor.user_id, "endpoint.delete")


async def test_forms_on_an_endpoint_that_has_gone_say_so(hooked: Hooked) -> None:
    visitor = await sign_in(hooked.shop)
    for act in ("pause", "resume", "enable", "disable", "test", "reveal", "rotate", "delete"):
        page = await visitor.post(f"{PAGE}/{act}", {"type": "payment.created"})
        assert (act, page.status) == (act, 404)
        assert "Add your endpoint" in page.text


async def test_source_addresses_are_named_for_a_receivers_allowlist(tmp_path: Path) -> None:
    async with open_hooked(tmp_path / "1") as hooked:
        await hooked.register()
        page = await (await sign_in(hooked.shop, Role.VIEWER)).get(PAGE)
        assert 'bind = ["203.0.113.7", "2001:db8::7"]' in page.text
    async with open_hooked(tmp_path / "2", PAYD_WEBHOOKS_BIND="127.0.0.1,::1") as hooked:
        page = await (await sign_in(hooked.shop)).get(PAGE)
        assert re.search(r"127\.0\.0\.1 .*IPv4 ::1 .*IPv6", page.text)
        assert "cannot be reached" not in page.text
    async with open_hooked(tmp_path / "3", PAYD_WEBHOOKS_BIND="127.0.0.1") as hooked:
        page = await (await sign_in(hooked.shop)).get(PAGE)
        assert "no IPv6 address among them" in page.text


async def test_what_moves_is_sent_alone_and_another_state_is_told(hooked: Hooked) -> None:
    await hooked.register()
    visitor = await sign_in(hooked.shop)
    same = await visitor.get(f"{PAGE}?was=Enabled", hx_request="true")
    assert "<html" not in same.html
    assert 'id="changed"' not in same.html
    assert "0 pending · 0 failed for good" in same.text
    await visitor.post(f"{PAGE}/pause")
    other = await visitor.get(f"{PAGE}?was=Enabled", hx_request="true")
    assert "The endpoint has changed: paused." in other.text
    await hooked.shop.call("DELETE", ENDPOINT)
    assert "deleted" in (await visitor.get(f"{PAGE}?was=Paused", hx_request="true")).text


async def test_a_visitor_of_another_account_has_an_endpoint_of_their_own(hooked: Hooked) -> None:
    await hooked.register()
    other = list(hooked.shop.house.accounts)[-1]
    visitor: Visitor = await sign_in(hooked.shop, account_id=other)
    assert "Add your endpoint" in (await visitor.get(PAGE)).text
