"""A tour of all scenes in one language: what is wrong in each, and pictures of it for people to look at."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Frame, Page, ViewportSize

from tests.browser.conftest import LOUD, Watch
from tests.browser.scenes import PLAYED, SCENES, SHOP, Stage

RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Off by default in axe, for it is new: WCAG 2.2's size of what is pressed.
AXE: Final = {
    "runOnly": RULES,
    "rules": {"target-size": {"enabled": True}},
    "resultTypes": ["violations"],
}
# What other lights may change; the rest of a page is the same in each.
COLOURS: Final = {
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
    "resultTypes": ["violations"],
}

SCREENS: Final = Path(__file__).parents[2] / ".cache" / "screens"
MEASURES: Final = (Path(__file__).parent / "measures.js").read_text()

DESKTOP: Final[ViewportSize] = {"width": 1280, "height": 900}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
# What is left of 1280 × 1024 at 400 %.
SMALL: Final[ViewportSize] = {"width": 320, "height": 256}

Light = Literal["light", "dark", "forced colours"]
LIGHTS: Final[tuple[Light, ...]] = ("light", "dark", "forced colours")

# What people look at: each view in each light, on a screen and a phone, from the left and from the right.
PICTURES: Final[dict[tuple[str, Light], list[tuple[str, ViewportSize]]]] = {
    ("en", "light"): [("desktop", DESKTOP), ("phone", PHONE)],
    ("en", "dark"): [("phone", PHONE)],
    ("en", "forced colours"): [("phone", PHONE)],
    ("ar", "light"): [("phone", PHONE)],
    ("ar", "dark"): [],
    ("ar", "forced colours"): [],
}

# The link under a code is cut with dots: it is copied, scanned, or read as the page's own.
FREE: Final = "#link"

SPACED: Final = """
* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important }
p { margin-block-end: 2em !important }"""
DOUBLED: Final = "html { font-size: 200% !important }"
ADOPT: Final = """(text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    document.adoptedStyleSheets = [sheet];
}"""


@dataclass
class Tour:
    """What was found, by what was measured and by scene; only what is wrong is kept.

    Attributes:
        moving: The animations that were seen anywhere where motion is welcome.
    """

    code: str
    watch: Watch
    found: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    moving: set[str] = field(default_factory=set)

    def note(self, measure: str, scene: str, wrong: list[str]) -> None:
        """Keep what is wrong; that it was measured is kept in any case."""
        kept = self.found.setdefault(measure, {})
        if wrong:
            kept[scene] = wrong


@contextmanager
def lit(page: Page, light: Light) -> Iterator[None]:
    """The page as who likes it so sees it."""
    scheme: Literal["light", "dark"] = "dark" if light == "dark" else "light"
    page.emulate_media(color_scheme=scheme, forced_colors="active" if light == "forced colours" else "none")
    yield
    page.emulate_media(color_scheme="light", forced_colors="none")


def bring_axe(page: Page) -> None:
    """Have it in all that the page opens from now on: a browser takes it so in a fifth of the time."""
    page.add_init_script(Axe().axe_script)


def axe(frame: Frame, options: Mapping[str, Any]) -> list[str]:
    """What it objects to, with where; `bring_axe` came before."""
    said = frame.evaluate("(options) => axe.run(document, options)", options)["violations"]
    return [f"{one['id']}: {node['target'][0]}" for one in said for node in one["nodes"]]


def layout(frame: Frame) -> list[str]:
    """What is too wide, cut off, or on top of something."""
    found: list[str] = frame.evaluate("(free) => measure.layout(free)", FREE)
    return found


def restyled(frame: Frame, style: str) -> list[str]:
    """The same with somebody's own style."""
    frame.evaluate(ADOPT, style)
    found = layout(frame)
    frame.evaluate(ADOPT, "")
    return found


def wants_pictures() -> bool:
    """Whether somebody will look at them: to take them all takes a sixth of a tour."""
    return bool(os.environ.get("PAYD_PICTURES"))


def ours(page: Page) -> list[Frame]:
    """The frames that show payd's pages."""
    return [one for one in page.frames if not one.url.startswith("http://localhost")] or [page.main_frame]


def take(tour: Tour, stage: Stage, *, whole: bool) -> None:
    """Go through all scenes. `whole` is with axe and pictures; else only what words can break is measured."""
    page = stage.page
    page.add_init_script(LOUD)
    page.add_init_script(PLAYED)
    if whole:
        bring_axe(page)
    page.on("console", tour.watch.on_console)
    page.on("pageerror", lambda error: tour.watch.complaints.append(f"uncaught: {error}"))
    page.on("request", tour.watch.on_request)
    for name, reach in SCENES.items():
        page.set_viewport_size(DESKTOP)
        page.route(f"{SHOP}/**", lambda route: route.fulfill(status=204))
        reach(stage)
        tour.seen.append(name)
        frames = ours(page)
        for frame in frames:
            frame.evaluate(MEASURES)
        if whole:
            _look(tour, name, page, frames)
        _squeeze(tour, name, page, frames)
        page.context.set_offline(False)
        page.unroute_all(behavior="ignoreErrors")
        page.goto("about:blank")  # what a scene left unanswered ends here


def _look(tour: Tour, name: str, page: Page, frames: list[Frame]) -> None:
    tour.note("motion", name, [one for frame in frames for one in frame.evaluate("measure.motion()")])
    page.emulate_media(reduced_motion="no-preference")
    for frame in frames:
        tour.moving |= {one["name"] for one in frame.evaluate("measure.animations()")}
    tour.note("flashes", name, [one for frame in frames for one in frame.evaluate("measure.flashes()")])
    page.emulate_media(reduced_motion="reduce")
    tour.note("busy", name, [one for frame in frames for one in frame.evaluate("measure.busy()")])
    for light in LIGHTS:
        with lit(page, light):
            rules = AXE if light == "light" else COLOURS
            tour.note(light, name, [one for frame in page.frames for one in axe(frame, rules)])
            if light == "forced colours":
                wrong = [one for frame in frames for one in frame.evaluate("measure.borders()")]
                tour.note("borders", name, wrong)
            for kind, size in PICTURES[tour.code, light]:
                page.set_viewport_size(size)
                if wants_pictures():
                    path = SCREENS / f"{name} {tour.code} {kind} {light}.png"
                    page.screenshot(path=path, full_page=len(page.frames) == 1)


def _squeeze(tour: Tour, name: str, page: Page, frames: list[Frame]) -> None:
    page.set_viewport_size(SMALL)
    tour.note("zoomed", name, [one for frame in frames for one in layout(frame)])
    tour.note("spaced", name, [one for frame in frames for one in restyled(frame, SPACED)])
    # Twice the size of text in a window of half a screen's width.
    page.set_viewport_size({"width": 640, "height": 512})
    tour.note("doubled", name, [one for frame in frames for one in restyled(frame, DOUBLED)])


def contact_sheet(folder: Path = SCREENS) -> Path:
    """A page with all pictures, so that a person can look at them at once."""
    rows: dict[str, list[Path]] = {}
    for picture in sorted(folder.glob("*.png")):
        rows.setdefault(picture.stem.split(" ")[0], []).append(picture)
    order = [*SCENES, *(name for name in rows if name not in SCENES)]
    body = "".join(
        f"<h2>{html.escape(name)}</h2><div>"
        + "".join(
            f'<figure><a href="{html.escape(one.name)}"><img src="{html.escape(one.name)}" loading="lazy" '
            f'alt=""></a><figcaption>{html.escape(one.stem)}</figcaption></figure>'
            for one in rows[name]
        )
        + "</div>"
        for name in order
        if name in rows
    )
    style = (
        "body{font:14px system-ui}div{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0}img{height:30em}"
    )
    sheet = folder / "index.html"
    sheet.write_text(
        f"<!doctype html><meta charset=utf-8><title>Every view</title><style>{style}</style>{body}"
    )
    return sheet
