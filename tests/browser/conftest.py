"""A real Chromium on a real server: nothing mocked but what a test cuts on purpose."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.browser.page_wallets import Wallets, running_wallets
from tests.browser.wallet_shop import CHAIN_ID, WalletShop, open_wallet_shop
from tests.live.chain import BUYER, private_key
from tests.packages import from_debian
from tests.process import Server
from tests.visitor import seat

OTHER_NAMES: Final = ("chromium-browser", "google-chrome")
FONTS: Final = ("fonts-noto-core", "fonts-liberation")
FLAGS: Final = (
    "--no-sandbox",  # it only visits this machine, and CI runs as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--site-per-process",  # as everywhere but in the browser without a window
)
PATIENCE_MS: Final = 10_000
# Pictures of what was tested, for people to look at.
SCREENS: Final = Path(__file__).parents[2] / ".cache" / "screens"

LOUD: Final = """
addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.violatedDirective, e.blockedURI));
"""


def find_chromium() -> str:
    """The path of the browser that people have."""
    return _other_chromium() or from_debian("chromium", "chromium", *FONTS)


def find_headless_chromium() -> str:
    """The path of the same browser without its window, whose pages take a quarter of the time to open."""
    name = "chromium-headless-shell"
    return shutil.which(name) or _other_chromium() or from_debian(name, name, *FONTS)


def _other_chromium() -> str | None:
    return next((path for name in OTHER_NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One for all files: each page has a context of its own. It ends before a test elsewhere begins."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=find_headless_chromium(), args=list(FLAGS))
        yield opened
        opened.close()


@dataclass
class Till:
    """A server with a shop, as its merchant sees it."""

    server: Server
    key: str
    merchant_id: str
    session: str
    """The token of an owner who is signed in to the dashboard."""

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """One call of the API with the shop's key; its body."""
        sent = {"Api-Key": self.key, "Merchant-Id": self.merchant_id}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        status, answer, _ = self.server.request(method, path, body, sent)
        assert status < 300, answer
        return answer

    def pay(self, value: str = "2500", unit: str = "EUR", reference: str = "ORDER-1042", **more: Any) -> str:
        """Create a payment; the link to its page."""
        body = {"referenceId": reference, "amount": {"unit": f"iso4217/{unit}", "value": value}, **more}
        return str(self.call("POST", "/v1/payments", body)["gatewayUrl"])

    def move(self, link: str, to: str) -> None:
        """Move a payment behind its page's back."""
        payment_id = link.rpartition("/")[2]
        self.call("POST", f"/v1/test/payments/{payment_id}/simulate", {"to": to})

    def status(self, link: str) -> str:
        """Where the payment of a page stands."""
        return str(self.call("GET", f"/v1/payments/{link.rpartition('/')[2]}/status")["status"])


@pytest.fixture(scope="module")
def till(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Till]:
    server = Server(tmp_path_factory.mktemp("checkout") / "data")
    made = server.init()
    session = seat(server.folder, made["accountId"])
    try:
        server.start()
        yield Till(server, made["apiKey"], made["merchantId"], session)
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()


@dataclass
class Watch:
    """What went wrong on the pages of one test. `expected` are parts of complaints that it causes itself."""

    complaints: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text} {message.location.get('url', '')}")

    def on_request(self, request: Request) -> None:
        if not request.url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:")):
            self.complaints.append(f"request: {request.url}")

    def surprises(self) -> list[str]:
        return [one for one in self.complaints if not any(part in one for part in self.expected)]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Fails a test on any console error, uncaught error, policy violation, or request off this machine."""
    watching = Watch()
    yield watching
    assert watching.surprises() == []


@pytest.fixture
def open_page(browser: Browser, watch: Watch) -> Iterator[Callable[..., Page]]:
    """Opens a page in a context of its own; takes the options of Playwright's `new_context`."""
    contexts = []

    def open_one(**options: Any) -> Page:
        context = browser.new_context(**{"reduced_motion": "reduce"} | options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.add_init_script(LOUD)
        page.on("console", watch.on_console)
        page.on("pageerror", lambda error: watch.complaints.append(f"uncaught: {error}"))
        page.on("request", watch.on_request)
        return page

    yield open_one
    for context in contexts:
        context.close()


@pytest.fixture
def open_desk(open_page: Callable[..., Page], till: Till) -> Callable[..., Page]:
    """Opens a page that is signed in to the till's dashboard; `goto` paths."""

    def open_one(**options: Any) -> Page:
        page = open_page(base_url=till.server.url, **options)
        name = f"payd-session-{till.server.port}"
        page.context.add_cookies([{"name": name, "value": till.session, "url": till.server.url}])
        return page

    return open_one


@pytest.fixture(scope="session")
def snap() -> Callable[[Page, str], Path]:
    """Keeps a picture of a whole page as it looks now, under a name; gives where it is."""
    SCREENS.mkdir(parents=True, exist_ok=True)

    def keep(page: Page, name: str) -> Path:
        path = SCREENS / f"{name}.png"
        page.screenshot(path=path, full_page=True)
        return path

    return keep


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WalletShop]:
    with open_wallet_shop(tmp_path_factory.mktemp("wallets") / "house") as opened:
        yield opened


@pytest.fixture(scope="module")
def beside(shop: WalletShop) -> Iterator[Wallets]:
    with running_wallets(shop.anvil.url, CHAIN_ID, private_key(BUYER)) as running:
        yield running


@pytest.fixture
def wallets(beside: Wallets) -> Wallets:
    beside.forget()
    return beside


@pytest.fixture
def still(shop: WalletShop) -> Iterator[Callable[[], None]]:
    """Stops the chain; it goes on after the test."""
    yield lambda: shop.anvil.ask("evm_setIntervalMining", 0)
    shop.anvil.ask("evm_setIntervalMining", 1)
