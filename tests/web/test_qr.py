"""QR codes read as what they say."""

from __future__ import annotations

import re

import zxingcpp
from PIL import Image

from payd.web.qr import draw_qr, qr_svg

LINK = "https://pay.example/pay/pay_t01k8000000000000000000000000000000000"


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


def test_what_is_secret_is_drawn_and_not_kept() -> None:
    before = qr_svg.cache_info().currsize
    assert draw_qr(LINK + "?secret") == draw_qr(LINK + "?secret")
    assert qr_svg.cache_info().currsize == before
