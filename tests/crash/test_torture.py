"""`scripts/torture` says what broke, keeps what is needed to look into it, and goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from payd.store.backup import Keystore, make_backup
from tests.crash.__main__ import DIARY, main
from tests.crash.aftermath import Death, Diary
from tests.crash.backups import FOLDER, Backup, Restored, restore_each
from tests.crash.process import drop_cut_line
from tests.shop import START_MS, open_shop

SEED = 4711


def come_to_no_end(folder: Path, seed: int, diary: Diary) -> Any:
    """A round in which the server dies and does not come back."""
    (folder / "server.log").write_text("a word\n")
    diary.deaths.append(Death(1_790_000_000_000 + seed, "payd", starting=True, backing_up=False))
    diary.ledger.problems.append("a problem")
    raise AssertionError("the server ended at its start")


def test_a_round_that_comes_to_no_end_is_told_kept_and_followed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.crash.__main__.live_through", come_to_no_end)

    assert main(["--deaths", "2", "--seed", str(SEED), "--keep", str(tmp_path)]) == 1

    said = capsys.readouterr().out
    assert "the server ended at its start" in said
    assert "2 broken promises" in said
    kept = {folder.name.split("-")[2]: folder for folder in tmp_path.iterdir()}
    assert kept.keys() == {str(SEED), str(SEED + 1)}
    assert str(kept[str(SEED)]) in said
    assert (kept[str(SEED)] / "server.log").read_text() == "a word\n"
    diary = msgspec.json.decode((kept[str(SEED)] / DIARY).read_bytes())
    assert diary["seed"] == SEED
    assert diary["diary"]["deaths"][0]["at_ms"] == 1_790_000_000_000 + SEED
    assert diary["diary"]["ledger"]["problems"] == ["a problem"]


def test_it_begins_no_round_after_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tests.crash.__main__.live_through", come_to_no_end)

    kept = tmp_path / "made" / "for it"

    main(["--deaths", "100", "--minutes", "0", "--keep", str(kept)])

    assert len(list(kept.iterdir())) == 1


def test_who_interrupts_it_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_args: Any) -> Any:
        raise BaseExceptionGroup("of a nursery", [KeyboardInterrupt()])

    monkeypatch.setattr("tests.crash.__main__.live_through", interrupted)

    with pytest.raises(BaseExceptionGroup):
        main(["--deaths", "2", "--keep", str(tmp_path)])


@pytest.fixture
async def made(tmp_path: Path) -> Backup:
    """A backup of a data directory with one payment, to which another one came later."""
    (tmp_path / FOLDER).mkdir()
    async with open_shop(
        tmp_path / "data",
        PAYD_WEBHOOKS_TEST_ALLOW_HTTP="true",
        PAYD_WEBHOOKS_TEST_ALLOW_NETWORKS="127.0.0.0/8",
    ) as shop:
        hooked = await shop.call("PUT", "/v1/webhooks/endpoint", {"url": "http://127.0.0.1:9/hook"})
        assert hooked.status == 200, hooked.body
        first = await shop.pay("FIRST")
        backup = back_up(tmp_path, "1", first)
        await shop.pay("SECOND")
    return backup


def back_up(folder: Path, name: str, *payments: str) -> Backup:
    """One that is made now."""
    backup = Backup(folder / FOLDER / name, dict.fromkeys(payments, 0), made=True)
    make_backup(folder / "data", backup.dest, Keystore(), with_keys=True, now_ms=START_MS)
    return backup


def restored(backup: Backup) -> Restored:
    """What it is worth."""
    (found,) = restore_each(backup.dest.parents[1], [backup], START_MS)
    return found


async def test_a_whole_backup_has_what_happened_before_it(made: Backup) -> None:
    (payment_id,) = made.before

    assert restored(made) == Restored(made, there=True, chains={payment_id: [(0, "requires_action")]})


async def test_a_backup_that_is_not_there_is_none(made: Backup, tmp_path: Path) -> None:
    assert not restored(Backup(tmp_path / FOLDER / "2", {})).is_usable


async def test_a_backup_with_a_broken_file_is_found_out(made: Backup) -> None:
    file = made.dest / "test.db"
    file.write_bytes(file.read_bytes()[:-1] + b"x")

    found = restored(made)
    assert not found.is_usable
    assert "not as it was" in (found.unusable or "")


async def test_a_backup_with_what_never_happened_is_found_out(made: Backup, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "data" / "test.db")) as tx, tx:
        tx.execute("UPDATE events SET body = body || ' ' WHERE seq = 1")

    assert len(restored(made).untrue) == 1


async def test_a_backup_with_an_event_that_is_owed_to_nobody_is_found_out(
    made: Backup, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "data" / "test.db")) as tx, tx:
        tx.execute("DELETE FROM deliveries WHERE event_seq = 2")

    assert len(restored(back_up(tmp_path, "2")).unowed) == 1


@pytest.mark.parametrize(
    ("said", "kept"), [("", ""), ("a\n", "a\n"), ("a\nb", "a\n"), ("a", ""), (None, None)]
)
def test_what_a_kill_cut_off_is_no_line(tmp_path: Path, said: str | None, kept: str | None) -> None:
    log = tmp_path / "server.log"
    if said is not None:
        log.write_text(said)

    drop_cut_line(log)

    assert (log.read_text() if log.exists() else None) == kept
