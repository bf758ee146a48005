"""What is drawn of a picture, and what is not; the limits of the process are real ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from payd.actors import picture_child
from payd.actors.picture_child import Refused
from payd.core.picture import LOGO_BYTES_MAX, LOGO_SIDE
from tests.pictures import BLUE, LIMITS, RED, bomb, decoded, encoded, near, plain

HALF = LOGO_SIDE // 2


def draw(data: bytes, kind: str = "png") -> bytes:
    return picture_child.draw(data, kind, LOGO_SIDE, LOGO_BYTES_MAX, LIMITS)


def two_colours(size: tuple[int, int] = (400, 400), mode: str = "RGB") -> Image.Image:
    """Red on the left, blue on the right."""
    picture = Image.new("RGB", size, BLUE)
    picture.paste(RED, (0, 0, size[0] // 2, size[1]))
    return picture.convert(mode)


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "avif"])
def test_every_kind_becomes_a_square_webp(kind: str) -> None:
    drawn = decoded(draw(encoded(two_colours(), kind.upper()), kind))
    assert (drawn.format, drawn.size) == ("WEBP", (LOGO_SIDE, LOGO_SIDE))
    assert near(drawn, (40, HALF), RED)
    assert near(drawn, (LOGO_SIDE - 40, HALF), BLUE)


def test_what_is_not_square_is_shown_whole_on_a_transparent_one() -> None:
    drawn = decoded(draw(encoded(two_colours((800, 200)))))
    assert drawn.size == (LOGO_SIDE, LOGO_SIDE)
    assert near(drawn, (HALF, 2), (0, 0, 0, 0))
    assert near(drawn, (4, HALF), (*RED, 255))
    assert near(drawn, (LOGO_SIDE - 4, HALF), (*BLUE, 255))


def test_a_small_picture_is_not_made_larger() -> None:
    assert decoded(draw(plain(size=(64, 64)))).size == (64, 64)
    assert decoded(draw(plain(size=(64, 20)))).size == (64, 64)


def test_transparency_stays() -> None:
    picture = Image.new("RGBA", (300, 300), (0, 0, 0, 0))
    picture.paste((*RED, 128), (0, 0, 150, 300))
    drawn = decoded(draw(encoded(picture)))
    assert near(drawn, (30, 30), (*RED, 128))
    assert near(drawn, (LOGO_SIDE - 30, 30), (0, 0, 0, 0))
    palette = Image.new("P", (300, 300), 1)
    palette.putpalette([0, 0, 0, *RED])
    assert near(decoded(draw(encoded(palette, transparency=1))), (30, 30), (0, 0, 0, 0), by=255)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_the_camera_was_held(orientation: int) -> None:
    upright = two_colours((400, 200))
    # How the sensor saw it: what each orientation undoes.
    seen = {
        1: upright,
        2: upright.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: upright.transpose(Image.Transpose.ROTATE_180),
        4: upright.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: upright.transpose(Image.Transpose.TRANSPOSE),
        6: upright.transpose(Image.Transpose.ROTATE_90),
        7: upright.transpose(Image.Transpose.TRANSVERSE),
        8: upright.transpose(Image.Transpose.ROTATE_270),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    drawn = decoded(draw(encoded(seen, "JPEG", quality=95, exif=exif), "jpeg"))
    assert near(drawn, (20, HALF), RED, by=20)
    assert near(drawn, (LOGO_SIDE - 20, HALF), BLUE, by=20)


def test_what_the_file_says_beside_its_pixels_is_dropped() -> None:
    exif = Image.Exif()
    exif[0x010E] = "SECRET of the camera"
    data = encoded(two_colours(), "JPEG", exif=exif, comment=b"SECRET comment", xmp=b"<x>SECRET</x>")
    data += b"<script>SECRET</script>PK\x03\x04"
    assert data.count(b"SECRET") == 4
    drawn = draw(data, "jpeg")
    assert b"SECRET" not in drawn
    assert not decoded(drawn).getexif()
    assert "xmp" not in decoded(drawn).info


def test_of_what_moves_the_first_picture_is_shown() -> None:
    frames = [Image.new("RGBA", (64, 64), colour) for colour in (RED, BLUE)]
    for kind in ("PNG", "WEBP", "AVIF"):
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=100)
        drawn = decoded(draw(data, kind.lower()))
        assert getattr(drawn, "n_frames", 1) == 1
        assert near(drawn, (10, 10), RED, by=20)


def test_colours_of_printers_and_sixteen_bits_come_out_as_they_look() -> None:
    cmyk = Image.new("CMYK", (300, 300), (0, 255, 255, 0))
    assert near(decoded(draw(encoded(cmyk, "JPEG"), "jpeg")), (9, 9), (255, 0, 0), by=30)
    grey = Image.new("I;16", (300, 300), 128 * 256)
    assert near(decoded(draw(encoded(grey))), (9, 9), (128, 128, 128))
    for mode in ("1", "L", "LA", "P"):
        assert decoded(draw(plain(size=(300, 300), mode=mode))).size == (LOGO_SIDE, LOGO_SIDE)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_even_noise_fits(mode: str) -> None:
    noise = Image.merge(mode, [Image.effect_noise((512, 512), 200) for _ in mode])
    assert len(draw(encoded(noise))) <= LOGO_BYTES_MAX


def test_flat_colours_are_kept_to_the_bit() -> None:
    assert near(decoded(draw(encoded(two_colours()))), (1, 1), RED, by=0)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (bomb(5000, 5000), "large"),
        (bomb(1, 50_000), "large"),
        (bomb(50_000, 1), "large"),
        (plain(size=(31, 31)), "small"),
        (plain(size=(1, 1)), "small"),
    ],
)
def test_sizes_out_of_bounds_are_refused_before_a_pixel_is_read(data: bytes, word: str) -> None:
    with pytest.raises(Refused, match=word):
        draw(data)


def test_a_line_is_no_logo_but_it_is_a_picture() -> None:
    assert decoded(draw(bomb(1, 5000))).size == (LOGO_SIDE, LOGO_SIDE)


def run(data: bytes, kind: str, before: str = "") -> subprocess.CompletedProcess[bytes]:
    """The program as it is started, after some more Python of its own limits."""
    path = Path(picture_child.__file__)
    numbers = [LOGO_SIDE, LOGO_BYTES_MAX, *LIMITS]
    program = [str(path)]
    if before:
        load = f"import runpy, sys; sys.argv[0] = {str(path)!r}; module = runpy.run_path({str(path)!r})\n"
        program = ["-c", load + before]
    return subprocess.run(
        [sys.executable, "-I", *program, kind, *map(str, numbers)],
        input=data,
        capture_output=True,
        env={"MALLOC_ARENA_MAX": "1"},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "avif"])
def test_the_program_reads_every_kind_within_its_limits(kind: str) -> None:
    done = run(plain(kind.upper()), kind)
    assert (done.returncode, done.stderr) == (0, b"")
    assert decoded(done.stdout).format == "WEBP"


def test_a_photograph_with_more_pictures_in_its_file_is_read_within_the_limits_too() -> None:
    """Cameras and phones put previews and brightness behind the photograph, in one JPEG."""
    others = [Image.new("RGB", (160, 120), BLUE)]
    done = run(encoded(two_colours(), "MPO", save_all=True, append_images=others), "jpeg")
    assert (done.returncode, done.stderr) == (0, b"")
    assert near(decoded(done.stdout), (40, HALF), RED, by=20)
    assert near(decoded(done.stdout), (LOGO_SIDE - 40, HALF), BLUE, by=20)


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "avif"])
def test_the_largest_picture_fits_into_its_memory(kind: str) -> None:
    mode = "RGB" if kind == "jpeg" else "RGBA"
    done = run(encoded(Image.new(mode, (4000, 4000), RED), kind.upper()), kind)
    assert done.returncode == 0, done.stdout[:100]


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    data = bomb(30_000, 30_000)
    assert len(data) < 120_000
    assert (run(data, "png").returncode, run(data, "png").stdout) == (1, b"large")


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "avif"])
def test_half_a_picture_and_junk_are_broken(kind: str) -> None:
    whole = encoded(two_colours(), kind.upper())
    for data in (whole[: len(whole) // 2], whole[:20], whole[:20] + bytes(range(256)) * 8, plain("GIF"), b""):
        done = run(data, kind)
        assert (done.returncode, done.stdout, done.stderr) == (1, b"broken", b"")


@pytest.mark.parametrize(
    ("attempt", "ends"),
    [
        ("open('/etc/hostname')", b"OSError"),
        ("import socket; socket.socket()", b"OSError"),
        ("bytearray(1 << 30)", b"MemoryError"),
        ("import os; os.system('true') and 1/0", b"Error"),
    ],
)
def test_a_process_that_was_taken_over_reaches_nothing(attempt: str, ends: bytes) -> None:
    done = run(b"", "png", f"import os, socket\nmodule['confine']()\n{attempt}")
    assert done.returncode != 0
    assert ends in done.stderr


def test_a_picture_that_takes_for_ever_ends_by_itself() -> None:
    done = run(b"", "png", "module['confine']()\nwhile True: pass")
    assert done.returncode < 0
