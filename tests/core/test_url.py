"""URLs to show or to send people to, and origins to let in."""

from __future__ import annotations

import pytest

from payd.core.url import URL_MAX, is_https_url, is_origin


@pytest.mark.parametrize(
    "text",
    [
        "https://shop.example",
        "https://shop.example/",
        "https://shop.example?order=1",
        "https://shop.example/thanks?order=1#top",
        "https://shop.example:8443/thanks",
        "https://[2001:db8::1]/thanks",
        "HTTPS://shop.example",
        "https://café.example/merci",
        "https://shop.example/" + "x" * (URL_MAX - 21),
    ],
)
def test_an_https_url_is_one(text: str) -> None:
    assert is_https_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://shop.example",
        "https://",
        "https:///thanks",
        "https://user@shop.example",
        "https://shop.example@evil.example/",
        "https://shop.example\\@evil.example",
        "https://[1",
        "https://shop.example%2eevil.example",
        'https://shop.example"evil',
        "https://shop.example:99999/",
        "https://shop.example:port/",
        "https://elpmaxe.live\u202e.example/",
        "https://shop.example\u2069/",
        "https://sh\u200bop.example/",
        "https://shop.example/a b",
        "https://shop.example/\n",
        "javascript:alert(1)",
        "//shop.example",
        "https://shop.example/" + "x" * (URL_MAX - 20),
    ],
)
def test_everything_else_is_not(text: str) -> None:
    assert not is_https_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://shop.example",
        "https://a.b-c.shop.example:8443",
        "https://xn--grsse-jua.example",
        "https://192.0.2.1",
        "https://localhost",
        "http://localhost",
        "http://localhost:3000",
        f"https://{'.'.join(['a' * 63] * 3)}.{'b' * 61}",
    ],
)
def test_an_origin_is_one(text: str) -> None:
    assert is_origin(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "*",
        "https:",
        "https://",
        "https://*",
        "https://*.shop.example",
        "https://shop.example/",
        "https://shop.example/cart",
        "https://shop.example?x",
        "https://shop.example#x",
        "https://shop.example ",
        "https://shop.example\n",
        "https://shop.example; script-src *",
        "https://shop.example,https://evil.example",
        "https://shop.example 'self'",
        "https://user@shop.example",
        "https://SHOP.example",
        "https://größe.example",
        "https://shop..example",
        "https://shop.example.",
        "https://-shop.example",
        "https://shop-.example",
        "https://shop_1.example",
        "https://[2001:db8::1]",
        "https://shop.example:443",
        "https://shop.example:0443",
        "https://shop.example:65536",
        "https://shop.example:",
        "http://shop.example",
        "http://localhost:80",
        "http://localhost.evil.example",
        "http://127.0.0.1",
        "ws://localhost",
        f"https://{'.'.join(['a' * 63] * 3)}.{'b' * 62}",
        f"https://{'a' * 64}.example",
    ],
)
def test_what_a_browser_would_not_say_is_no_origin(text: str) -> None:
    assert not is_origin(text)
