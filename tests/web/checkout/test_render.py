"""The page's headers, its policy, its files and its codes."""

from __future__ import annotations

import jinja2
import pytest

from payd.web.checkout.paths import Paths
from payd.web.checkout.render import html_answer
from payd.web.checkout.words import Language
from payd.web.html import content_security_policy, root_of
from payd.web.static import ASSETS

BASE_URL = "https://pay.example"
LINK = f"{BASE_URL}/pay/pay_t01k8000000000000000000000000000000000"
PATHS, BELOW = Paths("", Language("en"), None), Paths("/payd", Language("en"), None)
ERROR = {"heading": "No", "body": "Not so.", "back": None, "request_id": None, "for_wallet": False}


def test_a_page_is_kept_by_nobody_and_tells_nobody_where_it_is() -> None:
    answer = html_answer(404, "error.html", BASE_URL, PATHS, ERROR)
    headers = dict(answer.headers)
    assert answer.status == 404
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Robots-Tag"] == "noindex, nofollow"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Permissions-Policy"] == "camera=(), microphone=(), geolocation=(), payment=()"
    assert headers["Content-Security-Policy"] == content_security_policy(BASE_URL)


def test_text_is_escaped_and_a_missing_value_is_a_bug() -> None:
    body = html_answer(400, "error.html", BASE_URL, PATHS, ERROR | {"body": "<img src=x>"}).body.decode()
    assert "&lt;img src=x&gt;" in body
    assert "<img" not in body
    with pytest.raises(jinja2.UndefinedError):
        html_answer(400, "error.html", BASE_URL, PATHS, {"heading": "No"})


def test_a_page_below_a_path_links_its_files_below_it() -> None:
    assert root_of("https://shop.example/payd") == "/payd"
    assert root_of(BASE_URL) == ""
    body = html_answer(404, "error.html", "https://shop.example/payd", BELOW, ERROR).body.decode()
    assert f'href="/payd/static/payd.css?v={ASSETS["payd.css"].version}"' in body
