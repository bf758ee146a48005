"""What every page has: its templates, its policy, where it lies. Nothing on one comes from another origin.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import jinja2

from payd.web.static import VERSIONS

HTML: Final = ("Content-Type", "text/html; charset=utf-8")
NO_STORE: Final = ("Cache-Control", "no-store")


def environment(package: str) -> jinja2.Environment:
    """The templates of a package: everything is escaped, and what is not there is a mistake."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(package),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["v"] = dict(VERSIONS)
    return made


def content_security_policy(base_url: str, origins: tuple[str, ...] = ()) -> str:
    """What a page may load: its own files, and its own websocket, for old browsers by its name.

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
