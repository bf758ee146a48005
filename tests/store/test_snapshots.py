"""Snapshots: the last few, and nothing that somebody else put there."""

from __future__ import annotations

from pathlib import Path

from payd.store.snapshots import SNAPSHOTS_KEPT, YOUNG_MS, prune_snapshots, snapshot_name, snapshots_in

DAY_MS = 86_400_000
LATER_MS = 1_780_000_000_000 + 99 * DAY_MS


def test_only_the_last_few_are_kept(tmp_path: Path) -> None:
    names = [snapshot_name(1_780_000_000_000 + n * DAY_MS, "upgrade") for n in range(SNAPSHOTS_KEPT + 2)]
    assert names == sorted(names)
    for name in reversed(names):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "manifest.json").touch()
    (tmp_path / "snapshots" / "mine").mkdir()

    assert prune_snapshots(tmp_path, names[-1], LATER_MS) == 2
    assert [each.name for each in snapshots_in(tmp_path)] == [Path(name).name for name in names[2:]]
    assert (tmp_path / "snapshots" / "mine").exists()
    assert prune_snapshots(tmp_path, names[-1], LATER_MS) == 0


def test_the_young_stay_however_many_there_are(tmp_path: Path) -> None:
    now_ms = LATER_MS
    names = [snapshot_name(now_ms - YOUNG_MS + n - 1, "restore") for n in range(SNAPSHOTS_KEPT + 5)]
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    assert prune_snapshots(tmp_path, names[-1], now_ms) == 1
    assert snapshots_in(tmp_path) == [tmp_path / name for name in names[1:]]
    assert prune_snapshots(tmp_path, names[-1], 0) == 0, "by a clock that is behind all are"


def test_the_one_just_made_stays_also_where_the_clock_is_behind(tmp_path: Path) -> None:
    late = [snapshot_name(1_780_000_000_000 + n * DAY_MS, "upgrade") for n in range(SNAPSHOTS_KEPT)]
    made = snapshot_name(0, "restore")
    for name in (*late, made):
        (tmp_path / name).mkdir(parents=True)
    assert prune_snapshots(tmp_path, made, LATER_MS) == 1
    assert snapshots_in(tmp_path) == [tmp_path / name for name in (made, *late[1:])]


def test_where_nothing_had_to_be_kept_the_others_stay(tmp_path: Path) -> None:
    late = [snapshot_name(1_780_000_000_000 + n * DAY_MS, "upgrade") for n in range(SNAPSHOTS_KEPT)]
    for name in late:
        (tmp_path / name).mkdir(parents=True)
    assert prune_snapshots(tmp_path, snapshot_name(0, "restore"), LATER_MS) == 0


def test_one_that_cannot_be_taken_away_stays_and_harms_nothing(tmp_path: Path) -> None:
    names = [snapshot_name(1_780_000_000_000 + n * DAY_MS, "upgrade") for n in range(SNAPSHOTS_KEPT + 2)]
    for name in names:
        (tmp_path / name / "manifest.json").mkdir(parents=True)
    (tmp_path / names[1] / "manifest.json").rmdir()

    assert prune_snapshots(tmp_path, names[-1], LATER_MS) == 1
    assert [each.name for each in snapshots_in(tmp_path)] == [
        Path(name).name for name in (names[0], *names[2:])
    ]


def test_without_any_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert snapshots_in(tmp_path) == []
    assert prune_snapshots(tmp_path, snapshot_name(0, "restore"), LATER_MS) == 0
