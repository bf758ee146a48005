"""What people do at the dashboard's door in a browser, by the words on the screen."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyotp
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect

from tests.process import Server

RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
EMAIL, PASSWORD = "ada@example.com", "correct mule battery"
PRINTED_S: Final = 30.0


def violations(page: Page) -> list[str]:
    """What axe finds in a page: the rule and the element."""
    found = Axe().run(page, options={"runOnly": RULES}).response["violations"]
    return [f"{one['id']}: {node['html']}" for one in found for node in one["nodes"]]


def width(page: Page) -> int:
    """How wide the page is, to be compared with its window."""
    return int(page.evaluate("document.documentElement.scrollWidth"))


@dataclass
class Desk:
    """A server that is reached by a name, as passkeys need it, with nobody in it yet."""

    server: Server

    @classmethod
    def open(cls, folder: Path) -> Desk:
        """Start one."""
        server = Server(folder / "data")
        server.url = f"http://localhost:{server.port}"
        server._env["PAYD_BASE_URL"] = server.url
        server.start()
        return cls(server)

    @property
    def url(self) -> str:
        """Where it is."""
        return self.server.url

    def setup_link(self) -> str:
        """What the server prints once it has started, which can be a moment after it answers."""
        patience = time.monotonic() + PRINTED_S
        while not (
            found := re.findall(r"http://localhost:\d+/setup\?token=\w+\b", self.server.log.read_text())
        ):
            assert time.monotonic() < patience, self.server.log.read_text()
            time.sleep(0.05)
        return str(found[-1])

    def reset(self, email: str) -> str:
        """A link for a new password, as the operator makes it."""
        return str(self.server.payd("user", "reset", email)["url"])


def set_up(page: Page, desk: Desk) -> None:
    """The first person, from the printed link to the page that asks for a second factor."""
    page.goto(desk.setup_link())
    page.get_by_label("Name of your shop or company").fill("Ada's shop")
    page.get_by_label("Your e-mail").fill(EMAIL)
    page.get_by_label("A password").fill(PASSWORD)
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("heading", name="Protect your login")).to_be_visible()


def sign_in(page: Page, desk: Desk, password: str = PASSWORD) -> None:
    """E-mail and password."""
    page.goto(f"{desk.url}/login")
    page.get_by_label("E-mail").fill(EMAIL)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def add_app(page: Page, desk: Desk) -> tuple[pyotp.TOTP, list[str]]:
    """An authenticator app, by the text beside its code; with the recovery codes that came."""
    page.goto(f"{desk.url}/settings/security")
    page.get_by_role("link", name="Set up an app").click()
    app = pyotp.TOTP((page.locator("#secret").text_content() or "").replace(" ", ""))
    page.get_by_label("Code", exact=True).fill(app.now())
    page.get_by_role("button", name="Turn it on").click()
    expect(page.get_by_role("heading", name="Keep these recovery codes")).to_be_visible()
    return app, page.locator(".codes code").all_text_contents()


def add_device(page: Page) -> None:
    """A phone with a finger on it: it makes and shows passkeys without asking."""
    client = page.context.new_cdp_session(page)
    client.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    client.send("WebAuthn.addVirtualAuthenticator", {"options": options})
