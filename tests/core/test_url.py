"""URLs to show or to send people to."""

from __future__ import annotations

import pytest

from payd.core.url import URL_MAX, is_https_url


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
        "https://shop.example/a b",
        "https://shop.example/\n",
        "javascript:alert(1)",
        "//shop.example",
        "https://shop.example/" + "x" * (URL_MAX - 20),
    ],
)
def test_everything_else_is_not(text: str) -> None:
    assert not is_https_url(text)
