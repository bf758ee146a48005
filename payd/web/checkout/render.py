"""HTML, its headers, and the static files beside it. Nothing on the page comes from another origin.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import jinja2

from payd.web.call import Answer
from payd.web.checkout.words import FOR_SCRIPTS, LANGUAGE, say

PACKAGE: Final = "payd.web.checkout"

# Drawing a code takes 5 ms; buyers reload, and who has one link must not keep the server busy with it.
QR_CACHE_MAX: Final = 512
# Modules of white around a code; scanners need four.
QR_BORDER: Final = 4
STATIC_MAX_AGE_S: Final = 365 * 86_400

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
}
_HASH_CHARACTERS: Final = 16

FOR_SHOPS: Final = "payd.js"
"""The one script that shops load into their own pages; none of ours does."""

NO_STORE: Final = ("Cache-Control", "no-store")
NO_SNIFF: Final = ("X-Content-Type-Options", "nosniff")
SAFE: Final[tuple[tuple[str, str], ...]] = (
    NO_STORE,
    NO_SNIFF,
    # The id in the link is a capability: no other site may see it.
    ("Referrer-Policy", "no-referrer"),
    ("X-Robots-Tag", "noindex, nofollow"),
    # Who opened the page in a tab has no hold on it: a shop follows the payment's feed instead.
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=()"),
)
"""Headers of everything under a payment's link."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file, in memory."""

    body: bytes
    content_type: str
    version: str
    shared: bool
    """Whether pages of other origins may load it: wallets that are pages show pictures."""

    @property
    def etag(self) -> str:
        """Changes with the content only."""
        return f'"{self.version}"'


def _load_assets() -> Mapping[str, Asset]:
    assets = {}
    for file in (files(PACKAGE) / "static").iterdir():
        suffix = file.name[file.name.rfind(".") :]
        if suffix in _TYPES:
            body = file.read_bytes()
            version = hashlib.sha256(body).hexdigest()[:_HASH_CHARACTERS]
            shared = file.name == FOR_SHOPS or suffix == ".png"
            assets[file.name] = Asset(body, _TYPES[suffix], version, shared)
    return MappingProxyType(assets)


ASSETS: Final = _load_assets()
"""The files that are served, by name; there are no others."""

WITH_PAGE: Final = ("payd.css", "checkout.js", "wallets.js")
"""Those that every visit loads. `pay.js` comes with the buyer's press on a wallet."""


WALLETS: Final = ("https:", "http://localhost:*", "http://127.0.0.1:*")
"""Wallets show a page in a frame, and payd cannot know their origins. Plain http is a developer's machine."""


def content_security_policy(base_url: str, origins: tuple[str, ...] = ()) -> str:
    """What the page may load: its own files, and its own websocket, for old browsers by its name.

    `origins` are those whose pages may show it in a frame.
    """
    url = urlsplit(base_url)
    framed_by = " ".join(origins) or "'none'"
    socket = f"{'wss' if url.scheme == 'https' else 'ws'}://{url.netloc}"
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        f"connect-src 'self' {socket}; form-action 'self'; base-uri 'none'; frame-ancestors {framed_by}"
    )


def root_of(base_url: str) -> str:
    """The path that every link begins with: empty, unless a proxy serves payd below a path."""
    return urlsplit(base_url).path.rstrip("/")


def html_answer(
    status: int, template: str, base_url: str, values: Mapping[str, Any], origins: tuple[str, ...] = ()
) -> Answer:
    """A page with its headers; only pages of `origins` may frame it."""
    page = _environment().get_template(template)
    body = page.render(root=root_of(base_url), **values).encode()
    policy = ("Content-Security-Policy", content_security_policy(base_url, origins))
    return Answer(status, body, (("Content-Type", "text/html; charset=utf-8"), policy, *SAFE))


@lru_cache(maxsize=QR_CACHE_MAX)
def qr_svg(text: str) -> str:
    """A QR code as inline SVG, black on white in every colour scheme."""
    import segno  # 60 ms that no start should wait for

    out = io.BytesIO()
    segno.make(text, error="m", micro=False, boost_error=False).save(
        out,
        kind="svg",
        xmldecl=False,
        svgns=False,
        border=QR_BORDER,
        omitsize=True,
        svgclass=None,
        lineclass=None,
    )
    return out.getvalue().decode()


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(PACKAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(
        t=say,
        lang=LANGUAGE,
        script_words=dict(FOR_SCRIPTS),
        v={name: one.version for name, one in ASSETS.items()},
    )
    return environment
