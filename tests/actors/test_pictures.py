"""Logos are drawn one at a time, and what a process does never comes further than its refusal."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from payd.actors.pictures import WAITING_MAX, Pictures
from payd.core.errors import BodyTooLarge, InvalidParams, PaydError, RateLimited, UnsupportedMediaType
from payd.core.picture import BYTES_MAX, LOGO_BYTES_MAX
from tests.pictures import SVG, bomb, decoded, plain

pytestmark = pytest.mark.real_time


def program(folder: Path, text: str) -> Path:
    """A drawing program that does something else."""
    path = folder / "child.py"
    path.write_text(text)
    return path


def is_gone(pid: Path) -> bool:
    """Whether nothing is left of the process that wrote its number there."""
    return not Path("/proc", pid.read_text()).exists()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "AVIF"])
async def test_a_picture_becomes_a_logo(kind: str) -> None:
    drawn = await Pictures().draw(plain(kind))
    assert decoded(drawn).format == "WEBP"
    assert len(drawn) <= LOGO_BYTES_MAX


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"x" * BYTES_MAX, BodyTooLarge, "2 MiB"),
        (SVG, UnsupportedMediaType, "SVG"),
        (plain("GIF"), UnsupportedMediaType, "PNG, JPEG, WebP or AVIF"),
        (plain()[:100], InvalidParams, "damaged"),
        (bomb(30_000, 30_000), InvalidParams, "million"),
        (plain(size=(8, 8)), InvalidParams, "smaller than 32"),
    ],
)
async def test_what_cannot_be_drawn_is_refused_in_words(
    data: bytes, error: type[PaydError], words: str
) -> None:
    with pytest.raises(error, match=words):
        await Pictures().draw(data)


@pytest.mark.parametrize(
    "text",
    [
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
        "raise SystemExit(7)",
        "1/0",
        "",
        "import sys; sys.stdin.read(); print('<script>alert(1)</script>')",
        "import sys; sys.stdin.buffer.read(); sys.stdout.write('\\0' * 10**7)",
        "import sys; print('RIFF0000WEBP' + 'x' * 40_000)",
        "import sys; sys.stdin.close(); sys.exit(1)",
    ],
)
async def test_a_process_that_goes_wrong_is_a_refusal(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidParams, match="too much time or memory"):
        await Pictures(program(tmp_path, text)).draw(plain().ljust(BYTES_MAX))


async def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    with pytest.raises(InvalidParams, match="too much time"):
        await Pictures(program(tmp_path, text), deadline_s=0.5).draw(plain())
    assert is_gone(pid)


async def test_who_leaves_takes_the_process_along(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    pictures = Pictures(program(tmp_path, text))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pictures.draw, plain())
        while not (pid.exists() and pid.read_text()):
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert is_gone(pid)


async def test_nothing_of_ours_is_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv("PAYD_METRICS_TOKEN", "secret")
    said = "repr((sorted(os.environ), sys.argv[1:], os.getcwd()))"
    text = f"import os, sys; open({str(seen)!r}, 'w').write({said})"
    with pytest.raises(InvalidParams):
        await Pictures(program(tmp_path, text)).draw(plain())
    assert "PAYD" not in seen.read_text()
    assert "'png'" in seen.read_text()
    assert seen.read_text().endswith("'/')")


async def test_more_than_can_wait_are_told_to_come_back_and_the_patient_are_not(tmp_path: Path) -> None:
    pictures = Pictures(program(tmp_path, "import time; time.sleep(3600)"))
    async with trio.open_nursery() as nursery:
        for _ in range(WAITING_MAX + 1):
            nursery.start_soon(pictures.draw, plain())
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(partial(pictures.draw, plain(), patient=True))
        await trio.testing.wait_all_tasks_blocked()
        assert pictures._turn.statistics().tasks_waiting == WAITING_MAX + 1
        with pytest.raises(RateLimited, match="in a moment"):
            await pictures.draw(plain())
        nursery.cancel_scope.cancel()
