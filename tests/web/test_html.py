"""The policy of every page, and where pages lie."""

from __future__ import annotations

import jinja2
import pytest

from payd.web.html import content_security_policy, environment, root_of
from payd.web.static import ASSETS

BASE_URL = "https://pay.example"


def test_the_policy_allows_the_pages_own_origin_and_nothing_unsafe() -> None:
    policy = content_security_policy(BASE_URL)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "connect-src": "'self' wss://pay.example",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert "ws://127.0.0.1:8420;" in content_security_policy("http://127.0.0.1:8420/payd")


def test_only_the_origins_that_are_named_may_frame_a_page() -> None:
    origins = ("https://shop.example", "http://localhost:3000")
    policy = content_security_policy(BASE_URL, origins)
    assert policy.endswith("; frame-ancestors https://shop.example http://localhost:3000")
    assert policy.replace(" ".join(origins), "'none'") == content_security_policy(BASE_URL)


def test_a_proxy_may_serve_all_of_it_below_a_path() -> None:
    assert root_of("https://shop.example/payd") == "/payd"
    assert root_of(BASE_URL) == ""


def test_templates_escape_what_they_are_given_and_miss_nothing_silently() -> None:
    made = environment("payd.web.dashboard")
    assert made.from_string("{{ one }}").render(one="<b>") == "&lt;b&gt;"
    assert made.from_string("{{ v['dash.css'] }}").render() == ASSETS["dash.css"].version
    with pytest.raises(jinja2.UndefinedError):
        made.from_string("{{ nothing }}").render()
