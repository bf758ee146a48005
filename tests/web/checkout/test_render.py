"""The page's headers, its policy, its files and its codes."""

from __future__ import annotations

import re
from importlib.resources import files

import jinja2
import pytest
import zxingcpp
from PIL import Image

from payd.web.checkout.render import ASSETS, content_security_policy, html_answer, qr_svg, root_of

BASE_URL = "https://pay.example"
LINK = f"{BASE_URL}/pay/pay_t01k8000000000000000000000000000000000"
ERROR = {"heading": "No", "body": "Not so.", "back": None, "request_id": None, "for_wallet": False}


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


def test_a_page_is_kept_by_nobody_and_tells_nobody_where_it_is() -> None:
    answer = html_answer(404, "error.html", BASE_URL, ERROR)
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
    body = html_answer(400, "error.html", BASE_URL, ERROR | {"body": "<img src=x>"}).body.decode()
    assert "&lt;img src=x&gt;" in body
    assert "<img" not in body
    with pytest.raises(jinja2.UndefinedError):
        html_answer(400, "error.html", BASE_URL, {"heading": "No"})


def test_a_page_below_a_path_links_its_files_below_it() -> None:
    assert root_of("https://shop.example/payd") == "/payd"
    assert root_of(BASE_URL) == ""
    body = html_answer(404, "error.html", "https://shop.example/payd", ERROR).body.decode()
    assert f'href="/payd/static/payd.css?v={ASSETS["payd.css"].version}"' in body


def test_the_files_are_those_of_the_package_and_change_their_version_with_their_content() -> None:
    there = {file.name: file.read_bytes() for file in (files("payd.web.checkout") / "static").iterdir()}
    assert {name: asset.body for name, asset in ASSETS.items()} == there
    assert len({asset.version for asset in ASSETS.values()}) == len(ASSETS)
    assert all(re.fullmatch("[0-9a-f]{16}", asset.version) for asset in ASSETS.values())


def test_scripts_and_styles_load_nothing_from_elsewhere_and_build_no_html_from_text() -> None:
    for asset in ASSETS.values():
        if asset.content_type == "image/png":
            continue
        text = asset.body.decode()
        assert not re.search(r"https?://|@import|url\(|innerHTML|outerHTML|insertAdjacentHTML|eval\(", text)


def test_a_code_reads_as_its_text_and_needs_no_style() -> None:
    svg = qr_svg(LINK)
    assert "style=" not in svg
    size = int(re.search(r'viewBox="0 0 (\d+) ', svg)[1])  # type: ignore[index]
    modules = [[False] * size for _ in range(size)]
    path = re.search(r' d="([^"]+)"', svg)[1]  # type: ignore[index]
    x = y = 0.0
    for letter, first, second in re.findall(r"([MmhH])(-?[\d.]+)(?: ?(-?[\d.]+))?", path):
        if letter == "M":
            x, y = float(first), float(second)
        elif letter == "m":
            x, y = x + float(first), y + float(second)
        else:
            for column in range(round(x), round(x + float(first))):
                modules[int(y)][column] = True
            x += float(first)
    picture = Image.new("L", (size, size), 255)
    picture.putdata([0 if dark else 255 for row in modules for dark in row])
    found = zxingcpp.read_barcode(picture.resize((size * 4, size * 4), Image.Resampling.NEAREST))
    assert found is not None
    assert found.text == LINK
