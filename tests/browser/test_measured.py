"""What a visit costs the buyer, measured: bytes, requests, what is painted without scripts, Lighthouse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, Route, expect

from payd.web.checkout.render import PACKAGE
from payd.web.checkout.words import LANGUAGES, words_file
from payd.web.static import ASSETS, FOR_SHOPS, words_asset
from tests.browser.conftest import Till, Watch
from tests.browser.lighthouse import examine
from tests.browser.scenes import BUYER, CHECKOUT, PLAYED
from tests.browser.shop_page import ShopPage, open_shop_page
from tests.browser.test_checkout import PHONE, STATUSES
from tests.browser.test_solana_pay import SolanaTill, serving
from tests.web.asking import FIELDS

pytestmark = pytest.mark.browser

OpenPage = Callable[..., Page]

VISIT_MAX: Final = 40_000
REQUESTS_MAX: Final = 6
# What only who pays with a wallet of the browser loads: modules, and what they say.
PAYING: Final = ("pay.js", "choices.js", "once.js", "talk.js")
PAYING_MAX: Final = 38_000
SHOPS_SCRIPT_MAX: Final = 4_000

PERFORMANCE_MIN: Final = 95
LONG: Final = {"unit": "KWD", "value": "123456789", "reference": "ORDER-" + "8" * 30}

STATIC: Final = Path(__file__).parents[2].joinpath(*PACKAGE.split("."), "static")
# What makes HTML or code of text.
WRITES: Final = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|createContextualFragment|srcdoc"
    r"|\beval\(|new Function|setAttribute\(\s*['\"]on"
)


@pytest.fixture(scope="module")
def solana(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SolanaTill]:
    yield from serving(tmp_path_factory.mktemp("measured") / "solana")


@pytest.fixture
def framed(till: Till) -> Iterator[ShopPage]:
    """A shop whose origin the merchant listed: its checkouts load a script more."""
    path = f"/v1/merchants/{till.merchant_id}"
    with open_shop_page(till.server.url) as shop:
        till.call("PATCH", path, {"checkoutOrigins": [shop.origin]})
        yield shop
        till.call("PATCH", path, {"checkoutOrigins": []})


def files_of(html: str) -> set[str]:
    """The files that a page loads, with those that these import."""
    named = set(re.findall(r'(?:src|href)="[^"]*/static/([\w.-]+)[?"]', html))
    todo = list(named)
    while todo:
        text = ASSETS[todo.pop()].body.decode(errors="replace")
        found = set(re.findall(r"^import [^;]*?'\./([\w.-]+)';$", text, re.MULTILINE)) - named
        named |= found
        todo += found
    return named


def weight(page: bytes) -> int:
    """Bytes of a page and its files."""
    return len(page) + sum(len(ASSETS[name].body) for name in files_of(page.decode()))


def visit(page: Page, link: str) -> dict[str, int]:
    """What a browser loads of this machine: bytes by URL; its websocket is a request, too."""
    loaded: dict[str, int] = {}
    page.on("response", lambda answer: loaded.update({answer.url: len(answer.body())}))
    page.on("websocket", lambda socket: loaded.update({socket.url: 0}))
    page.goto(link, wait_until="networkidle")
    return {url: size for url, size in loaded.items() if not url.startswith("data:")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_visit_is_small_in_every_status_and_language(till: Till, language: str, framed: ShopPage) -> None:
    weights = {}
    for status in STATUSES:
        link = till.pay(**LONG, checkout=CHECKOUT)
        for step in {"requires_action": [], "succeeded": ["processing", status]}.get(status, [status]):
            till.move(link, step)
        answered, body = till.server.get(f"{link.removeprefix(till.server.url)}?lang={language}")
        assert answered == 200
        assert f'data-status="{status}"' in body
        assert f'lang="{language}"' in body
        weights[status] = weight(body.encode())
    assert max(weights.values()) <= VISIT_MAX, weights
    assert min(weights.values()) > VISIT_MAX / 4, weights


def test_that_is_all_that_a_browser_loads(
    till: Till, open_page: OpenPage, solana: SolanaTill, framed: ShopPage
) -> None:
    for link in (till.pay(), solana.pay(), solana.pay().partition("?")[0]):
        page = open_page()
        loaded = visit(page, link)
        assert len(loaded) <= REQUESTS_MAX, loaded
        assert sum(loaded.values()) <= VISIT_MAX, loaded
        files = {url.rpartition("/")[2].partition("?")[0] for url in loaded if "/static/" in url}
        assert files == files_of(page.content())
        assert sum(url.startswith("ws") for url in loaded) == 1


def test_a_checkout_in_a_shops_page_is_as_small(
    till: Till, open_page: OpenPage, framed: ShopPage, watch: Watch
) -> None:
    watch.expected = (f"request: {framed.origin}/",)
    framed.body = f'<button id="pay" data-payd="{till.pay().rpartition("/")[2]}">Pay</button>'
    page = open_page()
    page.goto(framed.origin)
    loaded: dict[str, int] = {}
    page.on("response", lambda answer: loaded.update({answer.url: len(answer.body())}))
    page.locator("#pay").click()
    page.wait_for_function("() => heard.length > 0")
    page.wait_for_load_state("networkidle")
    assert len(loaded) < REQUESTS_MAX, "and its websocket"
    assert sum(loaded.values()) <= VISIT_MAX


def test_only_who_pays_with_a_wallet_loads_what_that_needs(till: Till, open_page: OpenPage) -> None:
    page = open_page()
    page.add_init_script(PLAYED)
    before = visit(page, till.pay())
    more: list[str] = []
    page.on("request", lambda request: more.append(request.url))
    page.locator("#pay .wallet").first.click()
    expect(page.locator("#pay-now")).to_be_visible()
    names = {url.rpartition("/")[2].partition("?")[0] for url in more if "/static/" in url}
    assert names == {*PAYING, words_file("en")}
    assert not names & {url.rpartition("/")[2].partition("?")[0] for url in before}
    scripts = sum(len(ASSETS[name].body) for name in PAYING)
    assert max(scripts + len(words_asset(code).body) for code in LANGUAGES) <= PAYING_MAX


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_script_of_shops_is_small(till: Till, language: str) -> None:
    status, body = till.server.get(f"/static/{FOR_SHOPS}?lang={language}")
    assert status == 200
    assert len(body.encode()) <= SHOPS_SCRIPT_MAX


def test_amount_code_and_what_to_do_are_painted_before_any_script_has_come(
    till: Till, open_page: OpenPage
) -> None:
    page = open_page(**PHONE)
    waiting: list[Route] = []
    page.route("**/*.js*", lambda route: waiting.append(route))
    page.goto(till.pay(), wait_until="commit")
    page.wait_for_function("() => performance.getEntriesByName('first-contentful-paint').length === 1")
    for part in ("h1", "#heading", "#left", ".qr svg"):
        expect(page.locator(part)).to_be_visible()
    expect(page.locator("h1")).to_be_in_viewport(ratio=1)
    assert waiting, "it has scripts, and none of them was answered"
    painted = page.evaluate(
        "new Promise((done) => new PerformanceObserver((list) => done(list.getEntries().at(-1).size))"
        ".observe({ type: 'largest-contentful-paint', buffered: true }))"
    )
    assert painted > 0
    blocking = page.evaluate(
        "performance.getEntriesByType('resource').filter((one) => one.renderBlockingStatus === 'blocking')"
        ".map((one) => new URL(one.name).pathname)"
    )
    assert blocking == ["/static/payd.css"]
    for route in waiting:
        route.abort("aborted")


def test_every_page_has_the_strict_policy_and_no_wildcard_in_it(till: Till) -> None:
    link = till.pay()
    path = f"/v1/merchants/{till.merchant_id}"
    till.call("PATCH", path, {"collect": FIELDS})
    asked = f"/v1/gateway/payment/{link.rpartition('/')[2]}/options"
    form = till.call("POST", asked, [BUYER])["options"][0]["collectData"]["url"]
    till.call("PATCH", path, {"collect": []})
    for url in (link, form, f"{till.server.url}/pay/nothing", f"{link}?way=solana&lang=ar"):
        _, _, headers = till.server.request(
            "GET", url.removeprefix(till.server.url), headers={"Accept": "text/html"}
        )
        policy = dict(
            one.strip().partition(" ")[::2] for one in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert not any("unsafe" in value for value in policy.values())
        # Wallets in development show the form from any port of their own machine.
        ancestors = policy.pop("frame-ancestors")
        assert ancestors == "'none'" or url == form
        assert not any("*" in value or "https:" in value.split() for value in policy.values()), policy


def test_no_script_makes_html_or_code_of_text() -> None:
    scripts = sorted(STATIC.glob("*.js"))
    assert len(scripts) >= 5
    for script in scripts:
        text = script.read_text()
        assert not WRITES.search(text), script.name
        # What is parsed as HTML is an answer of this server, that the page has fetched itself.
        parsed = re.findall(r"parseFromString\((\w+)", text)
        assert len(parsed) <= 1, script.name


@pytest.fixture(scope="module")
def examined(till: Till) -> Callable[[str], str]:
    """The link of each page that Lighthouse sees."""
    path = f"/v1/merchants/{till.merchant_id}"

    def made(kind: str) -> str:
        if kind == "succeeded":
            link = till.pay()
            till.move(link, "succeeded")
            return link
        if kind == "form":
            till.call("PATCH", path, {"collect": FIELDS})
            asked = f"/v1/gateway/payment/{till.pay().rpartition('/')[2]}/options"
            found = till.call("POST", asked, [BUYER])["options"][0]["collectData"]["url"]
            till.call("PATCH", path, {"collect": []})
            return str(found)
        return till.pay()

    return made


@pytest.mark.parametrize("kind", ["requires_action", "succeeded", "form"])
def test_lighthouse_has_next_to_nothing_to_say(
    till: Till, examined: Callable[[str], str], tmp_path: Path, kind: str
) -> None:
    scores, short = examine(examined(kind), tmp_path)
    if scores.get("performance", 0) < PERFORMANCE_MIN:  # its trace is of this machine, which may be busy
        scores, short = examine(examined(kind), tmp_path)
    assert short == []
    assert scores.pop("performance") >= PERFORMANCE_MIN
    assert scores == {"accessibility": 100, "best-practices": 100}
