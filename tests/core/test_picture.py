"""Which pictures are taken is said by their own bytes, and a copy is tried again until it is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payd.core.errors import BodyTooLarge, InvalidParams, UnsupportedMediaType
from payd.core.picture import (
    BYTES_MAX,
    LOGO_BYTES_MAX,
    REFUSALS,
    RETRIES_S,
    digest_in,
    is_logo,
    kind_of,
    logo_name,
    refusal,
    retry_at_ms,
)
from tests.pictures import SVG, plain


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "avif"])
def test_a_picture_is_known_by_its_first_bytes(kind: str) -> None:
    assert kind_of(plain(kind.upper())) == kind


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "ICO", "JPEG2000"])
def test_other_kinds_are_refused_with_those_that_are_taken(kind: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="PNG, JPEG, WebP or AVIF"):
        kind_of(plain(kind, (64, 64)))


@pytest.mark.parametrize("data", [SVG, b"<svg>", b"\xef\xbb\xbf \n<SVG viewBox='0 0 1 1'>", b"<!-- --><svg "])
def test_svg_is_refused_by_its_name(data: bytes) -> None:
    with pytest.raises(UnsupportedMediaType, match="SVG"):
        kind_of(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<!doctype html><p>not here",
        b"\x00\x00\x00\x20ftypheic" + b"mif1heic" * 3,
        b"\x00\x00\x00\x20ftypmp42" + b"isommp42" * 3,
        b"RIFF\x00\x00\x00\x00WAVE",
        b"%PDF-1.7",
        b"PK\x03\x04",
    ],
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(UnsupportedMediaType, match="not a picture"):
        kind_of(data)


def test_a_picture_at_the_limit_is_taken_and_a_larger_one_is_not() -> None:
    assert kind_of(b"\xff\xd8\xff".ljust(BYTES_MAX)) == "jpeg"
    with pytest.raises(BodyTooLarge, match="2 MiB"):
        kind_of(b"\xff\xd8\xff".ljust(BYTES_MAX + 1))


@given(st.binary(max_size=400))
def test_any_bytes_are_known_or_refused(data: bytes) -> None:
    try:
        kind = kind_of(data)
    except UnsupportedMediaType:
        return
    assert kind in ("png", "jpeg", "webp", "avif")


def test_every_word_of_the_drawing_process_says_what_to_do() -> None:
    for word, words in REFUSALS.items():
        assert refusal(word).message == words
        assert isinstance(refusal(word), InvalidParams)
    assert refusal("\N{BOMB}").message == REFUSALS["costly"], "what a process makes up is not repeated"


def test_only_a_small_webp_can_be_a_logo() -> None:
    assert is_logo(plain("WEBP", (64, 64)))
    assert not is_logo(plain("PNG", (64, 64)))
    assert not is_logo(plain("WEBP", (64, 64)).ljust(LOGO_BYTES_MAX + 1))
    assert not is_logo(b"")


def test_a_links_name_holds_a_digest_and_nothing_else_does() -> None:
    digest = "0123456789abcdef" * 2
    assert digest_in(logo_name(digest)) == digest
    for name in (
        digest,
        f"{digest}.png",
        f"{digest[1:]}.webp",
        f"{digest.upper()}.webp",
        f"{digest}.webp\n",
        "",
    ):
        assert digest_in(name) is None


def test_a_copy_is_tried_again_later_and_later_and_then_never() -> None:
    waits = []
    for failures in range(1, len(RETRIES_S) + 1):
        at_ms = retry_at_ms(failures, 1000)
        assert at_ms is not None
        waits.append(at_ms - 1000)
    assert waits == sorted(waits)
    assert waits[0] == 15_000
    assert retry_at_ms(len(RETRIES_S) + 1, 1000) is None
