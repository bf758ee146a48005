"""Strangers' pictures are made logos of, one at a time, each in a process of its own.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import structlog
import trio

from payd.core.errors import RateLimited
from payd.core.picture import (
    LOGO_BYTES_MAX,
    LOGO_SIDE,
    PIXELS_MAX,
    SIDE_MAX,
    SIDE_MIN,
    Kind,
    is_logo,
    kind_of,
    refusal,
)

log = structlog.get_logger("payd.pictures")

PROGRAM: Final = Path(__file__).with_name("picture_child.py")
# Its processor time has a limit of its own; a machine that is busy with buyers gives it little.
DEADLINE_S: Final = 30.0
# Each holds up to 2 MiB and takes a tenth of a second; who sends more at once is told to come back.
WAITING_MAX: Final = 8
RETRY_AFTER_S: Final = 2
# Nothing of ours is in its environment; a Python of the system's may need to know where its libraries are.
KEPT_VARIABLES: Final = ("LD_LIBRARY_PATH",)


class Pictures:
    """Draws logos. One for the process, because the processors are."""

    def __init__(self, program: Path = PROGRAM, deadline_s: float = DEADLINE_S) -> None:
        self._program = program
        self._deadline_s = deadline_s
        self._turn = trio.Lock()

    async def draw(self, data: bytes, *, patient: bool = False) -> bytes:
        """The logo that is made of a picture: a square WebP of at most `LOGO_BYTES_MAX` bytes.

        Args:
            data: The picture.
            patient: Whether to wait behind however many others: nobody waits for the answer.

        Raises:
            BodyTooLarge, UnsupportedMediaType, InvalidParams: It is no picture that can be taken; the words
                say what to do.
            RateLimited: Too many wait for their turn.
        """
        kind = kind_of(data)
        if not patient and self._turn.statistics().tasks_waiting >= WAITING_MAX:
            raise RateLimited(
                "Too many pictures are being taken. Try again in a moment.",
                details={"retryAfterS": RETRY_AFTER_S},
            )
        async with self._turn:
            status, said = await self._run(data, kind)
        if status == 0 and is_logo(said):
            return said
        word = said.decode("ascii", "replace") if status == 1 else "costly"
        log.info("picture.refused", kind=kind, size=len(data), status=status, word=word[:20])
        raise refusal(word)

    async def _run(self, data: bytes, kind: Kind) -> tuple[int | None, bytes]:
        """How the drawing process ended, and what it said."""
        numbers = (LOGO_SIDE, LOGO_BYTES_MAX, PIXELS_MAX, SIDE_MIN, SIDE_MAX)
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        process = await trio.lowlevel.open_process(
            # Isolated: neither the folder, nor the user's own packages, nor any variable has a say in it.
            [sys.executable, "-I", str(self._program), kind, *map(str, numbers)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=kept | {"MALLOC_ARENA_MAX": "1"},
        )
        said = bytearray()
        try:
            with trio.move_on_after(self._deadline_s):
                await _feed(process, data)
                assert process.stdout is not None
                while len(said) <= LOGO_BYTES_MAX and (some := await process.stdout.receive_some()):
                    said += some
                if len(said) <= LOGO_BYTES_MAX:
                    await process.wait()
        finally:
            with trio.CancelScope(shield=True):
                await _end(process)
        return process.returncode, bytes(said)


async def _feed(process: trio.Process, data: bytes) -> None:
    """All of the picture; a process that ends before it has read it has its reason."""
    assert process.stdin is not None
    try:
        async with process.stdin as pipe:
            await pipe.send_all(data)
    except trio.BrokenResourceError:
        pass


async def _end(process: trio.Process) -> None:
    """Have nothing left of it."""
    if process.returncode is None:
        process.kill()
        await process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            await pipe.aclose()
