"""The form of a merchant that asks for details, in a real browser: alone, in a frame, in a web view."""

from __future__ import annotations

import base64
import functools
import http.server
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from playwright.sync_api import FrameLocator, Page, expect

from tests.browser.conftest import Till, Watch
from tests.browser.test_checkout import LIGHTS, PHONE, accessibility_problems
from tests.web.asking import FIELDS, SHOWN

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

BUYER: Final = "eip155:8453:0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"
SIGNATURE: Final = "0x" + "11" * 64 + "1b"
COMPLETE: Final = {"type": "IC_COMPLETE", "success": True}

WALLET: Final = """<!doctype html><title>Wallet</title><script>
var heard = [];
addEventListener('message', (event) => heard.push([event.origin, event.data]));
</script><iframe title="details" width="400" height="900" src="{url}"></iframe>"""

# What the web views of phones put into a page.
BRIDGES: Final = """
window.heard = [];
const hear = (name) => (message) => heard.push([name, message]);
window.AndroidWallet = { onDataCollectionComplete: hear('android') };
window.ReactNativeWebView = { postMessage: hear('react') };
window.webkit = { messageHandlers: { payDataCollectionComplete: { postMessage: hear('webkit') } } };
"""


@pytest.fixture
def asking(till: Till) -> Iterator[Till]:
    """A shop that asks for details; the others of this module's server do not."""
    path = f"/v1/merchants/{till.merchant_id}"
    till.call("PATCH", path, {"collect": FIELDS})
    yield till
    till.call("PATCH", path, {"collect": []})


def offer(till: Till) -> tuple[str, Any]:
    """A payment and an option of it."""
    payment = till.pay().rpartition("/")[2]
    found = till.call("POST", f"/v1/gateway/payment/{payment}/options", [BUYER])
    return payment, found["options"][0]


def fill_in(page: Page | FrameLocator) -> None:
    page.get_by_label("Full name").fill("Ada Lovelace-Byron")
    page.get_by_label("Date of birth").fill("1815-12-10")
    page.get_by_label("I agree to the terms").check()
    page.get_by_role("button", name="Send and go on").click()


def check_paid(till: Till, payment: str, option: Any) -> None:
    """The payment goes on now, and the merchant has the answers."""
    results = [{"type": "walletRpc", "data": [SIGNATURE]}]
    body = {"optionId": option["id"], "results": results}
    assert till.call("POST", f"/v1/gateway/payment/{payment}/confirm", body)["status"] == "processing"
    assert till.call("GET", f"/v1/payments/{payment}")["collectedData"]["fields"] == SHOWN


@pytest.fixture
def wallet_page(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Serves a wallet at another origin, which shows a link in a frame; gives the wallet's own link."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def show(url: str) -> str:
        (tmp_path / "wallet.html").write_text(WALLET.replace("{url}", url))
        return f"http://127.0.0.1:{server.server_address[1]}/wallet.html"

    yield show
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_wallet_hears_from_its_frame_that_the_form_is_done(
    asking: Till, open_page: OpenPage, wallet_page: Callable[[str], str], watch: Watch
) -> None:
    watch.expected = ("status of 404",)  # the wallet has no icon
    page = open_page()
    payment, option = offer(asking)
    page.goto(wallet_page(option["collectData"]["url"]))
    frame = page.frame_locator("iframe")
    fill_in(frame)
    expect(frame.get_by_role("heading", level=1)).to_have_text("Thank you")
    page.wait_for_function("heard.length")
    assert page.evaluate("heard") == [[asking.server.url, COMPLETE]]
    expect(frame.get_by_role("link", name="To the payment")).to_be_hidden()
    check_paid(asking, payment, option)


def test_a_web_view_hears_it_by_whatever_bridge_it_has(asking: Till, open_page: OpenPage) -> None:
    page = open_page(**PHONE)
    page.add_init_script(BRIDGES)
    payment, option = offer(asking)
    page.goto(option["collectData"]["url"])
    expect(page.get_by_label("Full name")).to_be_visible()
    assert page.evaluate("heard") == []
    fill_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    told = dict(page.evaluate("heard"))
    assert told.keys() == {"android", "react", "webkit"}
    assert json.loads(told["android"]) == json.loads(told["react"]) == told["webkit"] == COMPLETE
    check_paid(asking, payment, option)


@pytest.mark.parametrize("end", ["cancelled", "none"])
def test_a_web_view_hears_that_nothing_can_be_asked(
    asking: Till, open_page: OpenPage, watch: Watch, end: str
) -> None:
    watch.expected = ("status of 404",)
    page = open_page(**PHONE)
    page.add_init_script(BRIDGES)
    payment, option = offer(asking)
    url = str(option["collectData"]["url"])
    if end == "none":
        url = url.replace(payment, "pay_t" + "0" * 36)
    else:
        asking.call("POST", f"/v1/test/payments/{payment}/simulate", {"to": end})
    page.goto(url)
    page.wait_for_function("heard.length == 3")
    for _, said in page.evaluate("heard"):
        message = json.loads(said) if isinstance(said, str) else said
        assert (message["type"], message["success"]) == ("IC_ERROR", False)
        assert re.search("cancelled|No such payment", message["error"])


def test_it_works_without_scripts_and_leads_back_to_the_payment(
    asking: Till, open_page: OpenPage, watch: Watch
) -> None:
    watch.expected = ("status of 422",)
    page = open_page(java_script_enabled=False, **PHONE)
    payment, option = offer(asking)
    page.goto(option["collectData"]["url"])
    page.get_by_role("button", name="Send and go on").click()
    expect(page.get_by_role("alert")).to_contain_text("Please look at this again")
    fill_in(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    page.get_by_role("link", name="To the payment").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("€25.00")
    check_paid(asking, payment, option)


def test_what_is_wrong_is_said_at_once_and_heard(asking: Till, open_page: OpenPage, watch: Watch) -> None:
    watch.expected = ("status of 422",)
    page = open_page()
    _, option = offer(asking)
    page.goto(option["collectData"]["url"])
    page.evaluate("window.unloaded = false")
    page.get_by_label("Full name").fill("Ada")
    page.get_by_role("button", name="Send and go on").press("Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Please look at this again")
    expect(alert).to_be_focused()
    expect(page.get_by_label("Full name")).to_have_value("Ada")
    born = page.get_by_label("Date of birth")
    expect(born).to_have_accessible_description("Fill this in.")
    alert.get_by_role("link", name="Date of birth").press("Enter")
    expect(born).to_be_focused()
    assert page.evaluate("window.unloaded === false"), "no page was left for it"
    assert accessibility_problems(page) == []


def test_a_lost_network_loses_nothing_that_was_typed(asking: Till, open_page: OpenPage, watch: Watch) -> None:
    watch.expected = ("ERR_INTERNET_DISCONNECTED",)
    page = open_page()
    payment, option = offer(asking)
    page.goto(option["collectData"]["url"])
    page.context.set_offline(True)
    fill_in(page)
    expect(page.get_by_role("alert")).to_contain_text("No connection. Nothing was sent")
    page.context.set_offline(False)
    page.get_by_role("button", name="Send and go on").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    check_paid(asking, payment, option)


def test_a_question_may_have_any_id(asking: Till, open_page: OpenPage) -> None:
    """A form's own properties give way to its fields of the same names."""
    ids = ("action", "method", "elements", "submit", "querySelector")
    fields = [{"id": one, "type": "text", "name": f"Say {one}"} for one in ids]
    asking.call("PATCH", f"/v1/merchants/{asking.merchant_id}", {"collect": fields})
    page = open_page()
    payment, option = offer(asking)
    page.goto(option["collectData"]["url"])
    for one in fields:
        page.get_by_label(one["name"]).fill("yes")
    page.get_by_role("button", name="Send and go on").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
    results = [{"type": "walletRpc", "data": [SIGNATURE]}]
    asking.call(
        "POST", f"/v1/gateway/payment/{payment}/confirm", {"optionId": option["id"], "results": results}
    )
    answers = asking.call("GET", f"/v1/payments/{payment}")["collectedData"]["fields"]
    assert [(one["id"], one["value"]) for one in answers] == [(one["id"], "yes") for one in fields]


def test_a_wallet_fills_in_what_it_knows(asking: Till, open_page: OpenPage) -> None:
    page = open_page()
    _, option = offer(asking)
    known = base64.b64encode(json.dumps({"fullName": "Ada ☀", "tosConfirmed": "true"}).encode()).decode()
    page.goto(f"{option['collectData']['url']}&prefill={quote(known)}")
    expect(page.get_by_label("Full name")).to_have_value("Ada ☀")
    expect(page.get_by_label("I agree to the terms")).not_to_be_checked()


@pytest.mark.parametrize("light", LIGHTS)
def test_everybody_can_use_it_in_every_light_and_on_a_small_phone(
    asking: Till, open_page: OpenPage, watch: Watch, light: str
) -> None:
    watch.expected = ("status of 422",)
    page = open_page(**PHONE, **LIGHTS[light])
    _, option = offer(asking)
    found = {}
    page.goto(option["collectData"]["url"])
    expect(page.get_by_text("do not enter anyone's real details")).to_be_visible()
    for state in ("empty", "wrong", "done"):
        if state == "wrong":
            page.get_by_role("button", name="Send and go on").click()
            expect(page.get_by_role("alert")).to_be_visible()
        if state == "done":
            fill_in(page)
            expect(page.get_by_role("heading", level=1)).to_have_text("Thank you")
        found[state] = accessibility_problems(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, state
    assert found == {"empty": [], "wrong": [], "done": []}
