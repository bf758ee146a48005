"""What a power cut would take away: names and bytes that were written and are not on the disk yet."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest


class Disk:
    """Hears of every change of a folder's names, and of every sync, from where it is made on.

    Attributes:
        unsynced: `data FILE` where its bytes may be gone after a power cut, `name FILE` where its name may be
            there, or not, as it was before. Whoever forces a disk may do it in any order.
        steps: Each change of a name that puts a file in the place of another or takes one away, with what was
            unsynced just before it.
    """

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self._root = root.resolve()
        self.unsynced: set[str] = set()
        self.steps: list[tuple[str, frozenset[str]]] = []
        for name in ("open", "mkdir", "link", "symlink", "rename", "replace", "unlink", "fsync"):
            patch.setattr(os, name, partial(getattr(self, f"_{name}"), getattr(os, name)))

    def before(self, step: str) -> frozenset[str]:
        """What was unsynced before a step; it was done once."""
        [unsynced] = [found for done, found in self.steps if done == step]
        return unsynced

    def _named(self, path: Any) -> str | None:
        found = Path(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        return found.relative_to(self._root).as_posix() if found.is_relative_to(self._root) else None

    def _note(self, path: Any, *kinds: str) -> None:
        if (name := self._named(path)) is not None:
            self.unsynced |= {f"{kind} {name}" for kind in kinds}

    def _open(self, real: Callable[..., int], path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_CREAT:
            self._note(path, "name", "data")
        return real(path, flags, *args, **more)

    def _mkdir(self, real: Callable[..., None], path: Any, *args: Any, **more: Any) -> None:
        real(path, *args, **more)
        self._note(path, "name")

    def _link(self, real: Callable[..., None], source: Any, target: Any, **more: Any) -> None:
        real(source, target, **more)
        self._note(target, "name")

    _symlink = _link

    def _rename(self, real: Callable[..., None], source: Any, target: Any, **more: Any) -> None:
        old, new = self._named(source), self._named(target)
        self.steps.append((f"{old} becomes {new}", frozenset(self.unsynced)))
        real(source, target, **more)
        moved = {
            each for each in self.unsynced if f"{each} ".split(" ", 1)[1].startswith((f"{old} ", f"{old}/"))
        }
        self.unsynced -= moved
        self.unsynced |= {each.replace(f" {old}", f" {new}", 1) for each in moved}
        self._note(source, "name")
        self._note(target, "name")

    _replace = _rename

    def _unlink(self, real: Callable[..., None], path: Any, *, dir_fd: int | None = None) -> None:
        if dir_fd is None and os.path.lexists(path):
            self.steps.append((f"{self._named(path)} goes", frozenset(self.unsynced)))
            self._note(path, "name")
        real(path, dir_fd=dir_fd)

    def _fsync(self, real: Callable[..., None], handle: int) -> None:
        real(handle)
        path = os.readlink(f"/proc/self/fd/{handle}")
        name = self._named(path)
        folder = "" if path == str(self._root) else f"{name}/"
        done = {each for each in self.unsynced if each.startswith("name ") and _folder_of(each) == folder}
        self.unsynced -= done | {f"data {name}"}


def _folder_of(unsynced: str) -> str:
    """The folder that a name lies in, with a slash behind it; "" is the root."""
    _, _, name = unsynced.partition(" ")
    return name[: name.rfind("/") + 1]
