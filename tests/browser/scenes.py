"""Every view of the buyer's pages, by name, and how a browser gets there, whatever the language."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import Page, Route, expect

from payd.web.checkout.paths import Paths
from payd.web.checkout.render import html_answer
from payd.web.checkout.words import Language
from tests.browser.conftest import Till
from tests.browser.shop_page import ShopPage
from tests.web.asking import FIELDS

SHOP: Final = "https://shop.example"
CHECKOUT: Final = {"successUrl": f"{SHOP}/thanks", "errorUrl": f"{SHOP}/cart"}
BUYER: Final = "eip155:8453:0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"
HASH: Final = "0x" + "ab" * 32
LONG_AGO_MS: Final = 600_000

# Two wallets that are played: each answers as window.played says, fails as it says, or never answers.
ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E"
    "%3Crect width='8' height='8' fill='%23b45309'/%3E%3C/svg%3E"
)
PLAYED: Final = """
window.played = { eth_requestAccounts: ['0x' + '11'.repeat(20)], eth_chainId: '0x2105' };
const provider = { on() {}, request: async ({ method }) => {
    const answer = window.played[method];
    if (answer?.message) throw Object.assign(new Error(answer.message), answer);
    if (answer === undefined) return new Promise(() => {});
    return answer;
} };
const announced = [['Played Wallet', "ICON"], ['Another Wallet', '']].map(([name, icon], n) => (
    { info: { uuid: `played-${n}`, name, icon, rdns: `test.played${n}` }, provider }));
addEventListener('eip6963:requestProvider', () => {
    for (const detail of announced) dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail }));
});
""".replace("ICON", ICON)

REFUSALS: Final[dict[str, dict[str, Any]]] = {
    "declined": {"code": 4001, "message": "User rejected the request."},
    "locked": {"code": 4100, "message": "Unauthorized"},
    "busy": {"code": -32002, "message": "Already pending"},
    "reported": {"code": -32603, "message": "Internal"},
}


@dataclass
class Stage:
    """What scenes are played on.

    Attributes:
        page: A page of a context without storage of its own payments.
        till: A shop in test mode.
        solana: Creates a payment of a shop that takes Solana; the link to its page.
        shop: A page of a shop that the merchant lets show the checkout in a frame.
        code: The language.
    """

    page: Page
    till: Till
    solana: Callable[[], str]
    shop: ShopPage
    code: str

    def open(self, **more: Any) -> str:
        """The page of a new payment."""
        link = self.till.pay(**more)
        self.page.goto(link)
        return link

    def moved(self, to: str, *, before: str = "", **more: Any) -> None:
        """The page of a payment that was moved before it was opened."""
        link = self.till.pay(**more)
        for status in filter(None, (before, to)):
            self.till.move(link, status)
        self.page.goto(link)
        expect(self.page.locator(f"#status[data-status={to}]")).to_be_visible()

    def play(self, **answers: Any) -> None:
        """What the wallets answer from now on; None is never."""
        script = "(a) => Object.entries(a).forEach(([k, v]) => played[k] = v ?? undefined)"
        self.page.evaluate(script, answers)

    def wallet(self) -> None:
        """Press the first wallet."""
        self.page.locator("#pay .wallet").first.click()

    def options(self) -> str:
        """The page where a wallet has told its account."""
        link = self.open()
        self.wallet()
        expect(self.page.locator("#pay-now")).to_be_visible()
        return link

    def view(self, name: str) -> None:
        """Wait for a view of paying."""
        expect(self.page.locator(f"#status[data-pay={name}]")).to_be_visible()

    def kept(self, link: str, **what: Any) -> None:
        """Reload the page as one whose wallet had handed out something."""
        stored = {"option": "opt_none", "results": [HASH], "of": 1, "sends": True, "asking": False} | what
        key = f"payd:{link.rpartition('/')[2]}"
        self.page.evaluate("([k, v]) => localStorage.setItem(k, v)", [key, json.dumps(stored)])
        self.page.reload()

    def alert(self) -> None:
        """Wait for one."""
        expect(self.page.locator("#alert")).to_be_visible()

    def form(self) -> str:
        """The form of a shop that asks for details; the payment's link."""
        path = f"/v1/merchants/{self.till.merchant_id}"
        self.till.call("PATCH", path, {"collect": FIELDS})
        link = self.till.pay()
        payment = link.rpartition("/")[2]
        found = self.till.call("POST", f"/v1/gateway/payment/{payment}/options", [BUYER])
        self.page.goto(found["options"][0]["collectData"]["url"])
        return link


# -- the six statuses


def opened(**more: Any) -> Callable[[Stage], None]:
    """The page of a payment as it was created."""

    def reach(on: Stage) -> None:
        on.open(**more)

    return reach


def details(on: Stage) -> None:
    on.open()
    on.page.locator(".more summary").first.click()


def cancel_asked(on: Stage) -> None:
    on.open()
    on.page.locator(".cancel summary").click()


def expired_late(on: Stage) -> None:
    """The time is over while the page is open."""
    link = on.open()
    on.till.move(link, "expired")
    expect(on.page.locator("#status[data-status=expired]")).to_be_visible()


# -- paying with a wallet of the browser


def connecting(on: Stage) -> None:
    on.open()
    on.play(eth_requestAccounts=None)
    on.wallet()
    on.view("connecting")


def options(on: Stage) -> None:
    on.options()


def options_list(on: Stage) -> None:
    on.options()
    on.page.locator("#change").click()
    expect(on.page.locator("#pay input:checked")).to_be_focused()


def approve(on: Stage) -> None:
    on.options()
    on.page.locator("#pay-now").click()
    on.view("approve")


def never(route: Route) -> None:
    """Leave a request without an answer."""


def sent(on: Stage) -> None:
    on.page.route("**/confirm", never)
    on.kept(on.open())
    on.view("sent")


def unconfirmed(route: Route) -> None:
    route.fulfill(json={"status": "requires_action", "isFinal": False, "pollInMs": 60_000})


def unseen(on: Stage) -> None:
    on.page.route("**/confirm", unconfirmed)
    link = on.open()
    on.kept(link, told=on.page.evaluate("Date.now()") - LONG_AGO_MS)
    expect(on.page.locator("#replaced")).to_be_visible()


def reverted(on: Stage) -> None:
    said = {"message": "No.", "code": "invalid_params", "details": {"reason": "reverted"}}
    on.page.route("**/confirm", lambda route: route.fulfill(status=400, json=said))
    on.kept(on.open())
    on.alert()


def no_hash(on: Stage) -> None:
    unseen(on)
    on.page.locator("#replaced").fill("0x12")
    on.page.locator("#replaced + button").click()
    on.alert()


def maybe(on: Stage) -> None:
    on.kept(on.open(), results=[], asking=True)
    on.view("maybe")


def refused(error: dict[str, Any]) -> Callable[[Stage], None]:
    """A wallet that fails so."""

    def reach(on: Stage) -> None:
        on.open()
        on.play(eth_requestAccounts=error)
        on.wallet()
        on.alert()

    return reach


def declined(on: Stage) -> None:
    """Declined where it was to be approved."""
    on.options()
    on.play(personal_sign=REFUSALS["declined"])
    on.page.locator("#pay-now").click()
    on.alert()


def no_options(on: Stage) -> None:
    on.open()
    on.play(eth_requestAccounts=["0x" + "00" * 19 + "03"])
    on.wallet()
    on.alert()


def questions_first(on: Stage) -> None:
    on.open()
    on.play(eth_requestAccounts=["0x" + "00" * 19 + "06"])
    on.wallet()
    on.view("options")


def price_changed(on: Stage) -> None:
    """The option was old when the buyer pressed the button."""
    on.page.route("**/options", older)
    on.options()
    on.page.unroute("**/options")
    on.alert()


def older(route: Route) -> None:
    told = route.fetch().json()
    for one in told["options"]:
        one["amount"]["value"] = str(int(one["amount"]["value"]) - 10_000)
        one["expiresAt"] = 1
    route.fulfill(json=told)


def offline(on: Stage) -> None:
    with on.page.expect_websocket() as socket:
        on.open()
    socket.value.wait_for_event("framereceived")
    on.page.context.set_offline(True)
    on.alert()


# -- Solana Pay


def solana(on: Stage) -> None:
    on.page.goto(on.solana())
    expect(on.page.locator("#way .open")).to_be_visible()


def solana_asset(on: Stage) -> None:
    solana(on)
    on.page.locator(".choices a").first.click()
    expect(on.page.locator(".choices [aria-current]")).to_be_visible()


# -- the form


def form(on: Stage) -> None:
    on.form()


def form_wrong(on: Stage) -> None:
    on.form()
    on.page.locator(".fields .primary").click()
    on.alert()


def form_done(on: Stage) -> None:
    on.form()
    on.page.locator("#f-fullName").fill("Ada Lovelace-Byron")
    on.page.locator("#f-dob").fill("1815-12-10")
    on.page.locator("#f-tosConfirmed").check()
    on.page.locator(".fields .primary").click()
    expect(on.page.locator("#collect[data-state=done]")).to_be_visible()


def form_closed(on: Stage) -> None:
    link = on.form()
    on.till.move(link, "cancelled")
    on.page.reload()
    expect(on.page.locator("#collect[data-state=closed]")).to_be_visible()


# -- refusals, and a frame


def not_found(on: Stage) -> None:
    on.page.goto(f"{on.till.server.url}/pay/pay_t" + "0" * 36)


def refusal(code: str, status: int) -> Callable[[Stage], None]:
    """The page of a refusal that a busy or a broken server gives, with its policy."""

    def reach(on: Stage) -> None:
        url = f"{on.till.server.url}/pay/pay_t{'1' * 36}"
        language = Language(on.code)
        values = {
            "for_wallet": False,
            "heading": language.say(f"error.{code}"),
            "body": language.say(f"error.{code}.body"),
            "back": url,
            "request_id": "req_" + "2" * 36 if status >= 500 else None,
        }
        answer = html_answer(status, "error.html", on.till.server.url, Paths("", language, None), values)
        on.page.route(
            url, lambda route: route.fulfill(status=status, headers=dict(answer.headers), body=answer.body)
        )
        on.page.goto(url)

    return reach


def embedded(on: Stage) -> None:
    link = on.till.pay()
    on.shop.body = f'<p><button id="pay" data-payd="{link.rpartition("/")[2]}">Pay</button></p>'
    on.page.goto(on.shop.origin)
    on.page.locator("#pay").click()
    on.page.wait_for_function("() => heard.length > 0")


SCENES: Final[dict[str, Callable[[Stage], None]]] = {
    "open": opened(),
    "open-long": opened(value="9" * 18, unit="KWD", reference="X" * 255),
    "open-shop": opened(checkout=CHECKOUT),
    "details": details,
    "cancel": cancel_asked,
    "processing": lambda on: on.moved("processing"),
    "succeeded": lambda on: on.moved("succeeded"),
    "succeeded-shop": lambda on: on.moved("succeeded", checkout=CHECKOUT),
    "failed": lambda on: on.moved("failed"),
    "failed-sent": lambda on: on.moved("failed", before="processing", checkout=CHECKOUT),
    "expired": lambda on: on.moved("expired", checkout=CHECKOUT),
    "expired-late": expired_late,
    "cancelled": lambda on: on.moved("cancelled"),
    "connecting": connecting,
    "options": options,
    "options-list": options_list,
    "options-questions": questions_first,
    "options-price": price_changed,
    "approve": approve,
    "sent": sent,
    "unseen": unseen,
    "unseen-no-hash": no_hash,
    "reverted": reverted,
    "maybe": maybe,
    "declined": declined,
    **{f"wallet-{name}": refused(error) for name, error in REFUSALS.items() if name != "declined"},
    "wallet-no-options": no_options,
    "offline": offline,
    "solana": solana,
    "solana-asset": solana_asset,
    "form": form,
    "form-wrong": form_wrong,
    "form-done": form_done,
    "form-closed": form_closed,
    "not-found": not_found,
    "too-many": refusal("rate_limited", 429),
    "broken": refusal("internal_error", 500),
    "embedded": embedded,
}
"""What leads to each view."""
