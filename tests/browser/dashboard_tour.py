"""A tour of every page of the dashboard, from its own table of routes: what is wrong with each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Page, Response, ViewportSize, expect

from payd.web.dashboard.routes import PAGES
from payd.web.dashboard.routes import Page as Route
from tests.browser.conftest import LOUD, SCREENS
from tests.browser.dashboard import Desk, add_app, add_device, width
from tests.browser.dashboard_stand import LONG, Stand
from tests.browser.tour import AXE, DESKTOP, axe, bring_axe, lit, wants_pictures
from tests.pictures import plain as plain_picture

PHONE: Final[ViewportSize] = {"width": 360, "height": 740}
WEIGHT_MAX: Final = 150_000
# What may differ from a phone in the light: colours, what scrolls, how close things are, tables as tables.
ON_A_DESK: Final = {
    "runOnly": {
        "type": "rule",
        "values": [
            "color-contrast",
            "link-in-text-block",
            "scrollable-region-focusable",
            "target-size",
            "empty-table-header",
            "th-has-data-cells",
        ],
    },
    "resultTypes": ["violations"],
}
# Files to keep, not pages to look at.
DOWNLOADS: Final = ("/d/{mode}/payments.csv",)
# Where a page shows more with a query than without.
QUERIES: Final = {
    "/d/{mode}/transfers": "?all=yes",
    "/d/{mode}/payments/{payment}/match": "?tx=0x" + "ab" * 32,
    "/d/{mode}/transfers/match": "?chain=eip155:8453&tx=0x" + "ab" * 32,
}
OTHER: Final = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
PASSWORD: Final = "another mule battery"

# A page with everything in it open: its width, title and headings, and what was loaded, in bytes before any
# compression.
OPENED: Final = """() => {
    for (const one of document.querySelectorAll('main details')) one.open = true;
    return {
        wide: document.documentElement.scrollWidth,
        title: document.title,
        headings: document.querySelectorAll('h1').length,
        loaded: ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))
            .filter((one) => one.initiatorType !== 'xmlhttprequest')
            .map((one) => [one.name, one.decodedBodySize]),
    };
}"""
# Text that sticks out of the card, row or button that it is in, where nothing scrolls.
OUTSIDE: Final = """() => {
    const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    const found = new Set();
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        const holder = node.parentElement, box = holder.closest('button, .button, tr, .card');
        if (!node.data.trim() || !box || holder.closest('pre, .unseen, option, script, thead')) continue;
        if (!holder.checkVisibility() || getComputedStyle(box).overflowX !== 'visible') continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        const edge = box.getBoundingClientRect();
        const sticks = (line) => line.right > edge.right + 1 || line.left < edge.left - 1;
        if ([...range.getClientRects()].some(sticks)) found.add(node.data.trim());
    }
    return [...found];
}"""
# Each button that posts without a script: to where, and whether its form carries the token.
FORMS: Final = """() => [...document.querySelectorAll('button:not([type=button])')]
    .filter((one) => one.form && one.form.method === 'post' && !one.closest('.scripted'))
    .map((one) => [
        one.getAttribute('formaction') ?? one.form.getAttribute('action') ?? location.pathname,
        Boolean(one.form.elements.form_token?.value),
    ])"""
# What has no use without a script, and is seen all the same.
LEFT: Final = """() => [...document.querySelectorAll('.scripted, [type=button]')]
    .filter((one) => one.checkVisibility()).map((one) => one.outerHTML)"""


@dataclass
class Tour:
    """What was found, by what was measured and by scene; only what is wrong is kept.

    Attributes:
        seen: The scenes, by which of the routes they are.
        posts: Paths to which some form posts without a script.
    """

    stand: Stand
    found: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    seen: dict[str, list[str]] = field(default_factory=dict)
    posts: set[str] = field(default_factory=set)

    def note(self, measure: str, scene: str, wrong: list[str]) -> None:
        """Keep what is wrong; that it was measured is kept in any case."""
        kept = self.found.setdefault(measure, {})
        if wrong:
            kept[scene] = wrong

    def listen(self, page: Page) -> Page:
        """Keep what a page complains of, and what it asks of other machines."""
        base = urlsplit(self.stand.server.url).netloc
        page.add_init_script(LOUD)
        page.on("pageerror", lambda error: self.complaints.append(f"{page.url}: {error}"))
        page.on(
            "console",
            lambda said: (
                self.complaints.append(f"{page.url}: {said.text}")
                if said.type in ("error", "warning")
                and "the server responded with a status of 4" not in said.text
                else None
            ),
        )
        page.on(
            "request",
            lambda asked: (
                self.complaints.append(f"{page.url}: asked {asked.url}")
                if urlsplit(asked.url).netloc not in (base, "")
                else None
            ),
        )
        return page

    def look(self, page: Page, scene: str) -> None:
        """Measure the page as it is now, at the width of a phone, with a script."""
        page.set_viewport_size(PHONE)
        opened = page.evaluate(OPENED)
        self.note("wide", scene, _wide(opened["wide"], PHONE))
        self.note("outside", scene, page.evaluate(OUTSIDE))
        whole = sum(size for _, size in opened["loaded"])
        self.note("weight", scene, [] if 0 < whole <= WEIGHT_MAX else [f"{whole} bytes: {opened['loaded']}"])
        self.note("titled", scene, _title(scene, opened["title"], opened["headings"]))
        self.note("light", scene, axe(page.main_frame, AXE))
        _picture(page, scene, "phone")
        page.set_viewport_size(DESKTOP)
        self.note("wide", f"{scene}, on a desk", _wide(width(page), DESKTOP))
        _picture(page, scene, "desktop")
        if scene.startswith("/d/live/"):
            return  # the page of test mode has the same colours, and more of them
        with lit(page, "dark"):
            self.note("dark", scene, axe(page.main_frame, ON_A_DESK))
            _picture(page, scene, "dark")

    def look_without_a_script(self, page: Page, scene: str) -> None:
        """The same page where no script runs."""
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        wrong = [f"no use: {one}" for one in page.evaluate(LEFT)]
        for path, is_ours in page.evaluate(FORMS):
            self.posts.add(urlsplit(path).path)
            wrong += [] if is_ours else [f"no token: {path}"]
        self.note("plain", scene, wrong)


def _wide(wide: int, size: ViewportSize) -> list[str]:
    return [] if wide <= size["width"] else [f"{wide} px"]


def _title(scene: str, title: str, headings: int) -> list[str]:
    wants = "[Test] " if scene.startswith("/d/test/") else ""
    is_right = title.startswith(wants) and title.endswith(" · payd") and not title.startswith(" ·")
    return ([] if is_right else [title]) + ([] if headings == 1 else [f"{headings} h1"])


def _picture(page: Page, scene: str, kind: str) -> None:
    if wants_pictures():
        name = re.sub(r"\W+", "-", re.sub(r"_\w{20,}|(ab){9,}", "", scene)).strip("-")
        page.screenshot(path=SCREENS / f"desk-{name}-{kind}.png", full_page=True)


def looks() -> list[Route]:
    """Every page to look at, as the dashboard's table has it."""
    return [one for one in PAGES if one.method == "GET" and one.path not in DOWNLOADS]


def inside(stand: Stand) -> list[tuple[str, str]]:
    """The pages for who is signed in: the route's path, and where it is in each mode."""
    found = []
    for route in looks():
        if route.may is not None:
            more = QUERIES.get(route.path, "")
            for ids in stand.ids.values():
                found.append((route.path, route.path.format(**ids) + more))
    return list(dict.fromkeys(found))


def go(page: Page, tour: Tour, where: str) -> Response:
    """Open a page of the stand."""
    answer = page.goto(f"{tour.stand.server.url}{where}")
    assert answer is not None
    return answer


def seated(context: BrowserContext, stand: Stand, session: str) -> None:
    """Sign the context in."""
    name = f"payd-session-{stand.server.port}"
    context.clear_cookies()
    context.add_cookies([{"name": name, "value": session, "url": stand.server.url}])


def take(tour: Tour, page: Page, plain: Page) -> None:
    """Visit everything: with data and without any, the door, what forms answer, and refusals."""
    bring_axe(page)
    with_data(tour, page, plain)
    without_data(tour, page)
    at_the_door(tour, page, plain)
    answers(tour, page, plain)


def with_data(tour: Tour, page: Page, plain: Page) -> None:
    """Each page of the table, in each mode it has."""
    stand = tour.stand
    for one in (page, plain):
        seated(one.context, stand, stand.full)
    unpaid = {"/d/live/payments/{payment}/refund".format(**stand.ids["live"])}
    for path, where in inside(stand):
        status = go(page, tour, where).status
        tour.note("status", where, [] if status == 200 or where in unpaid else [str(status)])
        tour.look(page, where)
        go(plain, tour, where)
        tour.look_without_a_script(plain, where)
        tour.seen.setdefault(path, []).append(where)


def without_data(tour: Tour, page: Page) -> None:
    """The same in a new account: what is there teaches, and what is not is not found."""
    stand = tour.stand
    seated(page.context, stand, stand.empty)
    for path, where in inside(stand):
        if "{mode}" in path:
            wanted = 404 if re.search(r"\{(?!mode)", path) else 200
            if wanted == 200 or path.endswith("{payment}"):
                assert go(page, tour, where).status == wanted, where
                tour.look(page, f"{where} of a new account")


def at_the_door(tour: Tour, page: Page, plain: Page) -> None:
    """Every way in, by which a new person comes."""
    server = tour.stand.server
    who = ("--account", "Ada's shop", "--email", "eve@example.com")
    invited = str(server.payd("user", "invite", *who)["url"])
    shown = {"/setup": "/setup?token=none", "/join": "/join" + invited.partition("/join")[2]}
    for one in (page, plain):
        one.context.clear_cookies()
    for route in looks():
        if route.may is None:
            where = shown.get(route.path, route.path)
            go(page, tour, where)
            tour.look(page, route.path)
            go(plain, tour, where)
            tour.look_without_a_script(plain, route.path)
            tour.seen[route.path] = [where]
    page.goto(invited)
    page.get_by_label("A password").fill(PASSWORD)
    press(page, "Join")
    desk = Desk(server)
    add_device(page)
    add_app(page, desk)
    tour.look(page, "recovery codes")
    go(page, tour, "/settings/security")
    press(page, "Set up a passkey")
    expect(page.get_by_role("cell", name="This device")).to_be_visible()
    tour.look(page, "second factors")
    plain.context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
    go(plain, tour, "/settings/security")
    tour.look_without_a_script(plain, "second factors")
    for one in (page, plain):
        one.context.clear_cookies()
        one.goto(f"{server.url}/login")
        one.get_by_label("E-mail").fill("eve@example.com")
        one.get_by_label("Password", exact=True).fill(PASSWORD)
        press(one, "Sign in")
        expect(one.get_by_role("heading", name="One more step")).to_be_visible()
    tour.look(page, "the second step")
    tour.look_without_a_script(plain, "the second step")


def press(page: Page, name: str) -> None:
    """Press the button of this name."""
    page.get_by_role("button", name=name, exact=True).first.click()


def answers(tour: Tour, page: Page, plain: Page) -> None:
    """What forms answer: what is shown once, what is asked again, and what is refused."""
    stand = tour.stand
    test = stand.ids["test"]
    seated(page.context, stand, stand.full)
    at = "/d/test/merchants/{merchant}/destinations/{destination}".format(**test)
    for scene, where, typed, button in (
        ("a key", "/d/test/keys", {"Name": "Backend"}, "Create key"),
        ("a live key", "/d/live/keys", {"Name": "Backend"}, "Create key"),
        ("a link", "/settings/users", {"E-mail": "bo@example.com"}, "Make a link"),
        ("addresses to compare", at, {"New address": OTHER}, "Compare"),
        ("what would be sent again", "/d/test/webhooks/replay", {}, "Count them"),
        ("a secret", "/d/test/webhooks", {}, "Reveal"),
        ("a test event", "/d/test/webhooks", {}, "Send test event"),
        ("a refusal", "/d/test/webhooks", {"Type its host to confirm": "elsewhere"}, "Delete for good"),
        ("a refused payment", "/d/test/payments/create", {"Amount": "x", "Reference": "R"}, "Create payment"),
    ):
        go(page, tour, where)
        for label, value in typed.items():
            page.locator("main").get_by_label(label).first.fill(value)
        press(page, button)
        tour.look(page, scene)
    page.locator(".menu summary").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    tour.look(page, "the open menu")
    for scene, where in (("nothing here", "/d/test/none"), ("a search", f"/d/live/payments?q={LONG[:8]}")):
        go(page, tour, where)
        tour.look(page, scene)
    seated(page.context, stand, stand.stale)
    seated(plain.context, stand, stand.stale)
    for one, look in ((page, tour.look), (plain, tour.look_without_a_script)):
        go(one, tour, "/settings/security/app")
        look(one, "who are you")
    _more_without_a_script(tour, plain)


def _more_without_a_script(tour: Tour, plain: Page) -> None:
    """What is there only after something was done, done by forms alone."""
    stand = tour.stand
    test, live = (stand.ids[mode] for mode in ("test", "live"))
    seated(plain.context, stand, stand.full)

    def do(where: str, button: str) -> None:
        go(plain, tour, where)
        press(plain, button)
        tour.look_without_a_script(plain, f"{where}, {button}")

    merchant = "/d/test/merchants/{merchant}".format(**test)
    go(plain, tour, merchant)
    picture = {"name": "logo.png", "mimeType": "image/png", "buffer": plain_picture()}
    plain.get_by_label("Logo", exact=True).set_input_files(picture)  # type: ignore[arg-type]
    press(plain, "Send picture")
    tour.look_without_a_script(plain, "a logo")
    go(plain, tour, f"{merchant}/destinations/{test['destination']}")
    plain.get_by_label("New address").fill(OTHER)
    press(plain, "Compare")
    tour.look_without_a_script(plain, "addresses to compare")
    do("/settings/users", "Make a link")
    do("/settings/users", "Change")
    do("/d/live/webhooks", "Disable")
    stand.pay("live", f"missed by {live['merchant']}")
    do("/d/live/webhooks", "Enable")
    press(plain, "Count them")
    tour.look_without_a_script(plain, "what was missed")
    plain.get_by_role("button", name=re.compile(r"Send \d+ again")).click()
    tour.look_without_a_script(plain, "what is sent again")
    who = ("--account", "A new shop", "--email", "ada@example.com")
    plain.goto(str(stand.server.payd("user", "invite", *who)["url"]))
    tour.look_without_a_script(plain, "an invitation")
    plain.goto(str(stand.server.payd("user", "reset", "eve@example.com")["url"]))
    tour.look_without_a_script(plain, "a new password")
