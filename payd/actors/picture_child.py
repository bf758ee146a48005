"""The program that draws a logo from a stranger's picture, in a process of its own with hard limits.

It imports nothing of payd and is started by its path, without environment: from the limits on it can open no
file and no socket, and a decoder that is made to crash, spin or eat takes nobody along. The picture comes by
standard input, the logo goes to standard output; a refusal is one word there, and the exit status 1.
"""

from __future__ import annotations

import io
import os
import resource
import sys
from typing import Any, Final

from PIL import AvifImagePlugin, ExifTags, Image, MpoImagePlugin, TiffImagePlugin, WebPImagePlugin

CPU_S: Final = 4
# The largest picture of the slowest kind takes a little more than half of it.
MEMORY_BYTES: Final = 768 * 1024 * 1024
NICENESS: Final = 10

# Flat logos are smallest without loss; photographs are not, and noise is never small.
_LOSSY: Final = (90, 80, 65, 45, 25, 10)

# How a camera was held, and what makes up for it.
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

_SETTINGS: Final[tuple[dict[str, Any], ...]] = (
    {"lossless": True, "quality": 100},
    *({"quality": quality, "alpha_quality": quality} for quality in _LOSSY),
)
_REFUSED: Final = 1


class Refused(Exception):
    """The picture is not drawn; the argument is the word for it."""


def main() -> int:
    """Draw what comes in; `argv` is: kind, side of the logo, its bytes, pixels and sides of what comes in."""
    kind, *numbers = sys.argv[1:]
    side, bytes_max, pixels_max, side_min, side_max = map(int, numbers)
    confine()
    try:
        found = draw(sys.stdin.buffer.read(), kind, side, bytes_max, (pixels_max, side_min, side_max))
    except Refused as refused:
        sys.stdout.write(str(refused))
        return _REFUSED
    except MemoryError:
        sys.stdout.write("costly")
        return _REFUSED
    except Exception:  # whatever a decoder says of a file, it means the same
        sys.stdout.write("broken")
        return _REFUSED
    sys.stdout.buffer.write(found)
    return 0


def confine() -> None:
    """Load what drawing needs, and give everything else up."""
    Image.preinit()
    # What reads EXIF, and a JPEG with more pictures in it, is loaded late otherwise.
    assert WebPImagePlugin.SUPPORTED, TiffImagePlugin.PREFIXES
    assert MpoImagePlugin.MpoImageFile.format
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    Image.MAX_IMAGE_PIXELS = None  # looked at here, before anything is decoded
    os.nice(NICENESS)
    for limit, most in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(limit, (most, most))


def draw(data: bytes, kind: str, side: int, bytes_max: int, limits: tuple[int, int, int]) -> bytes:
    """The logo: square, at most `side` pixels, nothing of what the file said beside its pixels.

    Raises:
        Refused: Its size is out of bounds.
        Exception: Whatever the decoder finds.
    """
    pixels_max, side_min, side_max = limits
    picture: Image.Image = Image.open(io.BytesIO(data), formats=[kind.upper()])
    width, height = picture.size
    if max(width, height) > side_max or width * height > pixels_max:
        raise Refused("large")
    if max(width, height) < side_min:
        raise Refused("small")
    picture.draft(None, (side * 2, side * 2))  # a JPEG is read at a fraction of its size
    picture.load()
    turn = _TURNS.get(picture.getexif().get(ExifTags.Base.Orientation, 1))
    picture = _plain(picture)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=3.0)
    square = _square(picture if turn is None else picture.transpose(turn))
    for smaller in (square, square.resize((side // 2, side // 2), Image.Resampling.LANCZOS)):
        for settings in _SETTINGS:
            out = io.BytesIO()
            smaller.save(out, "WEBP", method=4, exif=b"", icc_profile=None, xmp=b"", **settings)
            if out.tell() <= bytes_max:
                return out.getvalue()
    raise Refused("large")


def _plain(picture: Image.Image) -> Image.Image:
    """The same in 8-bit red, green and blue, with transparency where there is some."""
    if picture.mode.startswith("I"):
        # 16 bits of grey, which a plain conversion would cut off at 255.
        return picture.convert("I").point(lambda value: value * (1 / 256)).convert("L").convert("RGB")
    return picture.convert("RGBA" if picture.has_transparency_data else "RGB")


def _square(picture: Image.Image) -> Image.Image:
    """All of it, in the middle of a square that is transparent around it."""
    side = max(picture.size)
    if picture.size == (side, side):
        return picture
    square = Image.new("RGBA", (side, side), (0, 0, 0, 0))
    square.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
    return square


if __name__ == "__main__":
    sys.exit(main())
