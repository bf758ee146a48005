"""From an empty folder to a paid test payment and a verified webhook, by the words on the screen alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Watch
from tests.browser.dashboard import Desk, set_up
from tests.browser.hook_receiver import HookReceiver, running_receiver
from tests.process import Server
from tests.shop import WALLET

pytestmark = [pytest.mark.browser, pytest.mark.real_time]

Snap = Callable[[Page, str], Path]

# Where the program is; the server is started elsewhere, as a merchant's is.
ROOT: Final = Path(__file__).parents[2]


@pytest.fixture
def hook() -> Iterator[HookReceiver]:
    with running_receiver() as running:
        yield running


@pytest.fixture
def desk(tmp_path: Path, watch: Watch) -> Iterator[Desk]:
    """A server that is started in an empty folder, without a payd.toml."""
    server = Server(tmp_path / "data", {"PYTHONPATH": str(ROOT)}, cwd=tmp_path)
    server.url = f"http://localhost:{server.port}"
    server._env["PAYD_BASE_URL"] = server.url
    server.start()
    watch.expected = (f"request: {server.url}", f"request: ws://localhost:{server.port}", "status of 400")
    try:
        yield Desk(server)
    finally:
        server.kill()


def go_to(page: Page, step: str) -> None:
    """The next step of the checklist on the first page."""
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Home").click()
    page.get_by_role("region", name="Set up test mode").get_by_role("link", name=step).click()


def add_endpoint(page: Page, desk: Desk, url: str) -> str:
    """A receiver on this machine, as the page says when it is refused: its lines of payd.toml, and a restart.

    Returns:
        The endpoint's secret.
    """
    page.get_by_label("URL", exact=True).fill(url)
    page.get_by_role("button", name="Add endpoint").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_text("Write this into payd.toml")).to_be_visible()
    lines = page.get_by_label("Lines of payd.toml").inner_text()
    assert desk.server.cwd is not None
    written = desk.server.cwd / "payd.toml"
    assert not written.exists()
    written.write_text(f"{lines}\n")
    assert desk.server.stop() == 0
    desk.server.start()
    # In the same session, on the same page, with what was typed there.
    expect(page.get_by_label("URL", exact=True)).to_have_value(url)
    page.get_by_role("button", name="Add endpoint").click()
    return page.get_by_role("region", name="this is its secret").locator("code").first.inner_text()


def test_from_nothing_to_a_verified_webhook(
    open_page: Callable[..., Page], desk: Desk, hook: HookReceiver, snap: Snap
) -> None:
    page = open_page()
    begun = time.monotonic()
    set_up(page, desk)
    page.get_by_role("link", name="Later").click()

    go_to(page, "Create a merchant")
    page.get_by_label("Name", exact=True).fill("Ada's Shop")
    page.get_by_label("E-mail", exact=True).fill("ada@example.com")
    page.get_by_role("button", name="Create merchant").click()
    page.get_by_role("link", name="Add where money goes").click()
    page.get_by_label("What is paid with").select_option(label="USDC (USD Coin) on Base")
    page.get_by_label("Your address on that network").fill(WALLET)
    page.get_by_role("button", name="Save").click()

    go_to(page, "Make a test key")
    page.get_by_label("Name", exact=True).fill("Backend")
    page.get_by_role("button", name="Create key").click()
    page.get_by_label("I saved it").check()
    page.get_by_role("button", name="Done").click()

    go_to(page, "Add a webhook")
    secret = add_endpoint(page, desk, hook.url)

    go_to(page, "Create a payment")
    page.get_by_label("Amount").fill("12.50")
    page.get_by_label("Reference").fill("ORDER-1042")
    page.get_by_role("button", name="Create payment").click()
    page.get_by_role("link", name="Open the buyer's page").click()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("heading", name="Paid")).to_be_visible()

    page.goto(f"{desk.url}/d/test/")
    expect(page.get_by_text("(done)")).to_have_count(6)
    print(f"{time.monotonic() - begun:.1f} s from the setup link to a verified webhook, by a script's hands")
    snap(page, "dash-first-steps")
    kinds = [body for _, body in hook.received]
    assert any(b"payment.succeeded" in body for body in kinds), kinds
    assert all(hook.is_signed(secret, at) for at in range(len(hook.received)))
