"""The buyer's pages as HTML with their headers.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import jinja2

from payd.web.call import Answer
from payd.web.checkout import locale
from payd.web.checkout.paths import Paths
from payd.web.html import HTML, NO_STORE, content_security_policy, environment
from payd.web.static import NO_SNIFF, words_asset

PACKAGE: Final = "payd.web.checkout"

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


WITH_PAGE: Final = ("payd.css", "checkout.js", "wallets.js")
"""Those that every visit loads. `pay.js` comes with a press on a wallet, `ended.js` with the end."""


WALLETS: Final = ("https:", "http://localhost:*", "http://127.0.0.1:*")
"""Wallets show a page in a frame, and payd cannot know their origins. Plain http is a developer's machine."""


def html_answer(
    status: int,
    template: str,
    base_url: str,
    paths: Paths,
    values: Mapping[str, Any],
    origins: tuple[str, ...] = (),
) -> Answer:
    """A page with its headers, in the buyer's language; only pages of `origins` may frame it."""
    page = _environment().get_template(template)
    language = paths.language
    body = page.render(root=paths.root, lang=language, t=language.say, **values).encode()
    policy = ("Content-Security-Policy", content_security_policy(base_url, origins))
    return Answer(status, body, (HTML, policy, *SAFE))


@cache
def _environment() -> jinja2.Environment:
    made = environment(PACKAGE)
    made.globals["words_asset"] = words_asset
    made.globals["sample"] = locale.sample
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    return made
