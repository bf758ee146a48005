"""Pictures as merchants have them, made here: no file of anybody else is kept."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any, Final

from PIL import Image

from payd.actors import picture_child
from payd.actors.pictures import Pictures
from payd.core.picture import LOGO_BYTES_MAX, LOGO_SIDE, PIXELS_MAX, SIDE_MAX, SIDE_MIN, Kind

RED: Final = (220, 20, 30)
BLUE: Final = (10, 30, 200)

LIMITS: Final = (PIXELS_MAX, SIDE_MIN, SIDE_MAX)

SVG: Final = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def encoded(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """A picture as a file."""
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def plain(kind: str = "PNG", size: tuple[int, int] = (512, 512), mode: str = "RGB") -> bytes:
    """A file of one colour."""
    return encoded(Image.new(mode, size, RED if mode == "RGB" else 0), kind)


def decoded(data: bytes) -> Image.Image:
    """A file as a picture that is all there."""
    picture = Image.open(io.BytesIO(data))
    picture.load()
    return picture


def near(picture: Image.Image, at: tuple[int, int], colour: tuple[int, ...], by: int = 12) -> bool:
    """Whether a pixel has nearly this colour."""
    found = picture.convert("RGBA").getpixel(at)
    assert isinstance(found, tuple)
    return all(abs(int(a) - b) <= by for a, b in zip(found, colour, strict=False))


def bomb(width: int, height: int) -> bytes:
    """A small PNG that says to have this many pixels, and has them: zeros pack a thousand times."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    packer = zlib.compressobj(9)
    row, at_once = bytes((width + 7) // 8 + 1), 1000
    some = at_once * row
    rows = b"".join(packer.compress(some) for _ in range(height // at_once))
    rows += packer.compress(height % at_once * row) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


class HerePictures(Pictures):
    """Draws without a process of its own, for tests in virtual time, which would not wait for one."""

    async def _run(self, data: bytes, kind: Kind) -> tuple[int | None, bytes]:
        try:
            return 0, picture_child.draw(data, kind, LOGO_SIDE, LOGO_BYTES_MAX, LIMITS)
        except picture_child.Refused as refused:
            return 1, str(refused).encode()
        except Exception:  # noqa: BLE001  # as the program does
            return 1, b"broken"
