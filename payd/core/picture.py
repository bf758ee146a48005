"""A merchant's logo: which pictures are taken, what is made of them, and when a copy is tried again.

What comes out is a square WebP of bounded size, whatever came in; the drawing itself is done elsewhere.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from payd.core.errors import BodyTooLarge, InvalidParams, PaydError, UnsupportedMediaType

Kind = Literal["png", "jpeg", "webp", "avif"]

BYTES_MAX: Final = 2 * 1024 * 1024
# A picture of that many pixels is four bytes each, and some of that again, while it is made smaller.
PIXELS_MAX: Final = 16_000_000
SIDE_MAX: Final = 8192
SIDE_MIN: Final = 32
# Pages show it at 40 CSS pixels, wallets at some eighty, and phones have three of their own for each.
LOGO_SIDE: Final = 256
LOGO_BYTES_MAX: Final = 30_000
LOGO_TYPE: Final = "image/webp"
HASH_CHARACTERS: Final = 32

# Together nearly eight hours: an outage of the shop's own server passes, an address that is wrong does not.
RETRIES_S: Final = (15, 60, 600, 3600, 24_000)

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_JPEG: Final = b"\xff\xd8\xff"
_AVIF_BRANDS: Final = frozenset({b"avif", b"avis"})
# The first box of a file names its brands; a longer one is no picture.
_BRANDS_BYTES_MAX: Final = 256
_SVG: Final = re.compile(rb"<(?:svg|!DOCTYPE svg)[\s>]", re.IGNORECASE)
_LOOK_BYTES: Final = 1024
_NAME: Final = re.compile(rf"[0-9a-f]{{{HASH_CHARACTERS}}}\.webp")

_KINDS: Final = "Send a PNG, JPEG, WebP or AVIF"
_PLENTY: Final = "512 × 512 is plenty."
TOO_LARGE: Final = f"The picture is larger than {BYTES_MAX // 1024**2} MiB. Send a smaller one: {_PLENTY}"

REFUSALS: Final[Mapping[str, str]] = {
    "broken": "The picture is damaged or not complete. Open it in a picture editor and save it again.",
    "small": f"The picture is smaller than {SIDE_MIN} pixels. Send a larger one: {_PLENTY}",
    "large": (
        f"The picture has more than {SIDE_MAX} pixels on a side or {PIXELS_MAX // 1_000_000} million in all."
        f" Send a smaller one: {_PLENTY}"
    ),
    "costly": "The picture takes too much time or memory to read. Save it as a plain PNG, and send that.",
}
"""Why a picture is not drawn, by the word that the drawing process says."""


def kind_of(data: bytes) -> Kind:
    """What a file is by its own first bytes; what its name and its sender say of it counts for nothing.

    Raises:
        BodyTooLarge: It has more than `BYTES_MAX` bytes.
        UnsupportedMediaType: It is no picture of a kind that is taken.
    """
    if len(data) > BYTES_MAX:
        raise BodyTooLarge(TOO_LARGE)
    if data.startswith(_PNG):
        return "png"
    if data.startswith(_JPEG):
        return "jpeg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp" and _AVIF_BRANDS & _brands(data):
        return "avif"
    if _SVG.search(data[:_LOOK_BYTES]):
        raise UnsupportedMediaType(f"SVG is not taken: it may hold scripts. {_KINDS} of the same logo.")
    raise UnsupportedMediaType(f"This is not a picture of a kind that is taken. {_KINDS}.")


def refusal(word: str) -> PaydError:
    """The refusal of a picture that could not be drawn; an unknown word reads as the costly kind."""
    return InvalidParams(REFUSALS.get(word, REFUSALS["costly"]))


def is_logo(data: bytes) -> bool:
    """Whether what a drawing process gave back can be what it was asked for."""
    return len(data) <= LOGO_BYTES_MAX and data[:4] == b"RIFF" and data[8:12] == b"WEBP"


def logo_name(digest: str) -> str:
    """The file name of a logo in links. Wallets look at its ending."""
    return f"{digest}.webp"


def digest_in(name: str) -> str | None:
    """The digest in the file name of a link; None when it is no such name."""
    return name.removesuffix(".webp") if _NAME.fullmatch(name) else None


def retry_at_ms(failures: int, now_ms: int) -> int | None:
    """When to try a copy again that has failed this often; None when that was the last time."""
    return now_ms + RETRIES_S[failures - 1] * 1000 if failures <= len(RETRIES_S) else None


def _brands(data: bytes) -> set[bytes]:
    end = min(int.from_bytes(data[:4], "big"), _BRANDS_BYTES_MAX)
    return {data[8:12]} | {data[at : at + 4] for at in range(16, end, 4)}
