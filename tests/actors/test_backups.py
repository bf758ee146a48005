"""Backups while serving: one at a time, off the loop, and ended when nobody wants them any more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio

from payd.actors import backups as module
from payd.actors.backups import Backups
from payd.core.errors import InvalidParams
from payd.store.backup import DRAFT, Keystore
from payd.store.copying import Look
from payd.store.manifest import Manifest, read_manifest
from tests.stored.fill import stored, unpack

NOW_MS = 1_790_000_000_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    unpack(stored()[max(stored())], tmp_path / "data")
    return tmp_path / "data"


def backups(data: Path, *, inline: bool = True) -> Backups:
    return Backups(data, Keystore(), lambda: NOW_MS, inline=inline)


async def test_it_is_made_and_the_next_one_too(data: Path, tmp_path: Path) -> None:
    made = backups(data)
    for name in ("one", "two"):
        manifest = await made.make(tmp_path / name, with_keys=False)
        assert manifest == read_manifest(tmp_path / name)
        assert made.progress is None


async def test_a_refusal_is_in_words_and_leaves_room_for_the_next(data: Path, tmp_path: Path) -> None:
    made = backups(data)
    (tmp_path / "there").mkdir()
    with pytest.raises(InvalidParams, match=r"is there already.*\.$"):
        await made.make(tmp_path / "there", with_keys=False)
    (data / "test.db").chmod(0o600)
    await made.make(tmp_path / "new", with_keys=False)


async def test_what_the_system_refuses_names_who_writes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Manifest:
        raise PermissionError(13, "Permission denied", str(tmp_path / "b"))

    monkeypatch.setattr(module, "make_backup", refuse)
    with pytest.raises(InvalidParams, match=r"Permission denied: .*The server itself writes the backup"):
        await backups(data).make(tmp_path / "b", with_keys=False)


async def test_a_link_in_the_place_of_the_draft_is_refused_in_words(data: Path, tmp_path: Path) -> None:
    (tmp_path / DRAFT).symlink_to(data)
    with pytest.raises(InvalidParams, match=r"is a link.*move it away\.$"):
        await backups(data).make(tmp_path / "b", with_keys=False)


@pytest.mark.real_time
async def test_on_a_thread_one_is_made_at_a_time_and_can_be_stopped(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = backups(data, inline=False)
    working, go_on = threading.Event(), threading.Event()

    def slow(*_: object, look: Look, **__: object) -> Manifest:
        look("copying", "test.db", 1, 2)
        working.set()
        go_on.wait(20)
        look("copying", "test.db", 2, 2)
        raise AssertionError("it went on")

    monkeypatch.setattr(module, "make_backup", slow)

    async def expect_the_end() -> None:
        with pytest.raises(InvalidParams, match="was stopped"):
            await made.make(tmp_path / "one", with_keys=False)

    assert not made.stop()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expect_the_end)
        await trio.to_thread.run_sync(working.wait, 20)
        assert made.progress is not None
        assert (made.progress.what, made.progress.file, made.progress.done) == ("copying", "test.db", 1)
        with pytest.raises(InvalidParams, match="made already"):
            await made.make(tmp_path / "two", with_keys=False)
        assert made.stop()
        go_on.set()
    assert made.progress is None
