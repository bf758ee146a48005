"""Webhooks and the API log in a real browser, with a real receiver: everything a merchant does with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from payd.web.dashboard.routes import PAGES
from tests.browser.conftest import Till, Watch
from tests.browser.dashboard import violations
from tests.browser.hook_receiver import HookReceiver, running_receiver

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

PAGE = "/d/test/webhooks"
HOSTILE = b"</code></pre><script>document.title = 'owned'</script><img src=x onerror=alert(1)>" + b"x" * 3000
SCREENS = Path(__file__).parents[2] / ".cache" / "screens"
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]{20,}")


@pytest.fixture
def receiver(till: Till) -> Iterator[HookReceiver]:
    """A receiver that is the account's endpoint; afterwards there is none again."""
    with running_receiver() as running:
        till.call("PUT", "/v1/webhooks/endpoint", {"url": running.url})
        yield running
        till.server.request("DELETE", "/v1/webhooks/endpoint", headers={"Api-Key": till.key})


@pytest.fixture
def bare(till: Till) -> Iterator[HookReceiver]:
    """A receiver that nobody has told payd of."""
    with running_receiver() as running:
        yield running
        till.server.request("DELETE", "/v1/webhooks/endpoint", headers={"Api-Key": till.key})


def newest(till: Till) -> str:
    """The newest delivery."""
    return str(till.call("GET", "/v1/webhooks/deliveries")["data"][0]["id"])


def test_an_endpoint_is_added_and_its_secret_seen_once(
    open_desk: Callable[..., Page], bare: HookReceiver, watch: Watch
) -> None:
    watch.expected = (" 400 ",)  # a browser complains of every refusal
    page = open_desk(viewport={"width": 360, "height": 800})
    page.goto(PAGE)
    assert violations(page) == []
    page.get_by_label("URL").fill("https://10.0.0.7/hook")
    page.get_by_label("payment.processing").uncheck()
    page.get_by_role("button", name="Add endpoint").click()
    expect(page.get_by_role("alert")).to_contain_text("allow_networks in [webhooks.test]")
    expect(page.get_by_label("payment.processing")).not_to_be_checked()
    page.get_by_label("URL").fill(bare.url)
    page.get_by_role("button", name="Add endpoint").click()
    secret = SECRET.findall(page.inner_text("main"))[0]
    assert violations(page) == []
    page.get_by_role("button", name="Send test event").click()
    expect(page.locator("#tested")).to_contain_text("200 in")
    assert bare.is_signed(secret)
    expect(page.get_by_text(secret)).to_have_count(0)


def test_a_test_event_shows_a_hostile_answer_as_text(
    open_desk: Callable[..., Page], receiver: HookReceiver
) -> None:
    receiver.status, receiver.body = 401, HOSTILE
    page = open_desk()
    page.goto(PAGE)
    for event_type in ("payment.settled", "payment.cancelled"):
        page.get_by_label("Event", exact=True).select_option(event_type)
        page.get_by_role("button", name="Send test event").click()
        expect(page.locator("#tested")).to_contain_text("401 in")
        expect(page.locator("#tested")).to_contain_text(event_type)
        expect(page.locator("#tested")).to_contain_text("payd webhook verify")
        expect(page.locator("#tested pre")).to_contain_text("<script>document.title")
    assert page.locator("#tested img").count() == 0
    assert "owned" not in page.title()


def test_the_secret_is_revealed_and_rotated(open_desk: Callable[..., Page], receiver: HookReceiver) -> None:
    page = open_desk()
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(PAGE)
    assert not SECRET.findall(page.content())
    page.get_by_role("button", name="Reveal").click()
    old = SECRET.findall(page.inner_text("main"))[0]
    page.get_by_role("link", name="I saved it").click()
    assert not SECRET.findall(page.content())
    page.get_by_role("button", name="Rotate").click()
    expect(page.get_by_text("The old secret works until")).to_be_visible()
    fresh = SECRET.findall(page.inner_text("main"))[0]
    page.get_by_role("button", name="Send test event").click()
    expect(page.locator("#tested")).to_contain_text("200 in")
    assert fresh != old
    assert receiver.is_signed(fresh)
    assert receiver.is_signed(old)


def test_states_change_in_their_place_unless_paused(
    open_desk: Callable[..., Page], till: Till, receiver: HookReceiver
) -> None:
    receiver.status = 503
    till.pay(reference="LIVE-1")
    page = open_desk()
    page.goto(f"{PAGE}/deliveries")
    row = page.locator("tbody tr").first
    delivery = newest(till)
    expect(page.locator(f"#last-{delivery}")).to_contain_text("503")
    place = row.bounding_box()
    receiver.status = 200
    till.pay(reference="LIVE-2")
    expect(page.locator("#fresh")).to_contain_text(re.compile(r"\d+ new"))
    expect(page.locator(f"#state-{delivery}")).to_have_text("Delivered")
    assert row.locator(f"#state-{delivery}").count() == 1
    assert place == row.bounding_box()
    page.get_by_role("link", name="Show").click()
    expect(page.locator(f"#state-{newest(till)}")).to_be_visible()
    page.get_by_role("button", name="Pause live updates").click()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(3500)
    assert asked == []


def test_one_is_sent_again_from_its_page_by_keys_alone(
    open_desk: Callable[..., Page], till: Till, receiver: HookReceiver
) -> None:
    receiver.status = 500
    till.pay()
    page = open_desk()
    page.goto(f"{PAGE}/deliveries/{newest(till)}")
    page.get_by_text("Answer", exact=True).first.click()
    expect(page.get_by_label("Body of the answer").first).to_have_text("thank you")
    receiver.status = 200
    button = page.get_by_role("button", name="Resend")
    for _ in range(60):
        page.keyboard.press("Tab")
        if button.evaluate("one => one === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("it was accepted: 200")
    expect(page.get_by_role("article", name="Attempt 1", exact=True)).to_be_visible()


def test_disabled_enabled_and_what_it_missed_sent_without_a_script(
    open_desk: Callable[..., Page], till: Till, receiver: HookReceiver
) -> None:
    page = open_desk(java_script_enabled=False)
    page.goto(PAGE)
    page.get_by_role("button", name="Disable").click()
    expect(page.get_by_text("has been disabled for").first).to_be_visible()
    till.pay()
    assert receiver.received == []
    page.goto(PAGE)
    expect(page.get_by_text("Nothing is sent to it, and nothing waits for it.")).to_be_visible()
    page.get_by_role("button", name="Enable").click()
    expect(page.get_by_role("status")).to_contain_text(re.compile(r"It missed \d+ events?"))
    page.get_by_role("button", name="Count them").click()
    page.get_by_role("button", name=re.compile(r"Send \d+ again")).click()
    expect(page.get_by_role("status")).to_contain_text("It has begun")
    for _ in range(50):
        page.reload()
        if page.get_by_text("Done").count():
            break
        page.wait_for_timeout(100)
    expect(page.get_by_text("Done").first).to_be_visible()
    assert receiver.received


def pages_of(till: Till, link: str) -> list[str]:
    """Every page of the test mode, of a payment and its webhook where a page is of one."""
    settlements = till.call("GET", f"/v1/merchants/{till.merchant_id}/settlements")["crypto"]
    delivery = till.call("GET", "/v1/webhooks/deliveries")["data"][0]
    ids = {"merchant": till.merchant_id, "payment": link.rpartition("/")[2], "delivery": delivery["id"]}
    ids |= {"event": delivery["eventId"], "destination": settlements[0]["id"], "mode": "test"}
    found = (page.path for page in PAGES if page.in_mode and page.method == "GET")
    return [path.format(**ids) for path in found if not path.endswith(".csv")]


def test_a_failing_endpoint_is_told_on_every_page_until_it_works(
    open_desk: Callable[..., Page], till: Till, receiver: HookReceiver
) -> None:
    receiver.status = 500
    till.move(link := till.pay(), "succeeded")
    page = open_desk()
    failing = re.compile("The test webhook endpoint has (just begun to fail|been failing for)")
    page.goto(f"{PAGE}/deliveries/{newest(till)}")
    expect(page.get_by_text("500").first).to_be_visible()
    pages = pages_of(till, link)
    assert len(pages) > 15
    for path in pages:
        page.goto(path)
        expect(page.get_by_text(failing), path).to_be_visible()
    page.goto("/d/test/")
    page.get_by_role("link", name="See why").click()
    expect(page).to_have_url(re.compile(f"{PAGE}$"))

    receiver.status = 200
    page.goto(f"{PAGE}/deliveries/{newest(till)}")
    page.get_by_role("button", name="Resend").click()
    expect(page.get_by_role("status")).to_contain_text("it was accepted: 200")
    for path in pages:
        page.goto(path)
        expect(page.get_by_text(failing), path).to_have_count(0)


def test_it_is_deleted_by_its_host(
    open_desk: Callable[..., Page], receiver: HookReceiver, watch: Watch
) -> None:
    watch.expected = (" 400 ",)
    page = open_desk()
    page.goto(PAGE)
    page.get_by_label("Type its host to confirm").fill("elsewhere.test")
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_role("alert")).to_contain_text("type its host: 127.0.0.1")
    page.get_by_label("Type its host to confirm").fill("127.0.0.1")
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_role("heading", name="Add your endpoint")).to_be_visible()
