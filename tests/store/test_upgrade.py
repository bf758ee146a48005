"""Each stored database becomes one of today, readable and whole; what fails on the way changes nothing."""

from __future__ import annotations

import shutil
import sqlite3
from collections import namedtuple
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec
import pytest

from payd.store import upgrade as module
from payd.store.copying import LogAstray, OfficeMissing
from payd.store.durable import draft_folder, sync_file
from payd.store.manifest import read_manifest
from payd.store.migrate import DatabaseTooNew, Migration, MigrationFailed, Schema, read_migrations
from payd.store.self_check import broken_places, row_counts, schema_differences
from payd.store.snapshots import SNAPSHOTS_KEPT, snapshot_name
from payd.store.swap import PLAN, STAGE, Swap, commit, stage
from payd.store.upgrade import DRY_RUN, look_at_schemas, try_upgrade, upgrade
from tests.shop import open_shop
from tests.stored.fill import FILES, read_told, stored, unpack

NEWEST = (len(read_migrations("office")), len(read_migrations("realm")))
OLD = [versions for versions in stored() if versions != NEWEST]
OLDEST = stored()[1, 1]
NOW_MS = 1_790_000_000_000
Usage = namedtuple("Usage", "total used free")


def counts(data: Path) -> dict[str, dict[str, int]]:
    found = {}
    for name, _ in FILES:
        with closing(sqlite3.connect(data / name)) as tx:
            found[name] = row_counts(tx)
    return found


def contents(data: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in data.iterdir() if each.is_file()}


def test_a_database_of_every_version_is_stored() -> None:
    offices, realms = ({versions[n] for versions in stored()} for n in (0, 1))
    todo = "run `python -m tests.stored.fill` and commit what it makes"
    assert (offices, realms) == (set(range(1, NEWEST[0] + 1)), set(range(1, NEWEST[1] + 1))), todo


@pytest.mark.parametrize("versions", stored(), ids=str)
def test_every_table_of_a_stored_database_has_rows(tmp_path: Path, versions: tuple[int, int]) -> None:
    unpack(stored()[versions], tmp_path)
    assert {
        table for each in counts(tmp_path).values() for table, count in each.items() if not count
    } == set()
    assert tuple(each.version for each in look_at_schemas(tmp_path)) == versions


@pytest.mark.parametrize("versions", OLD, ids=str)
async def test_a_stored_database_is_upgraded_at_the_start_and_read_by_todays_code(
    tmp_path: Path, versions: tuple[int, int]
) -> None:
    told = unpack(stored()[versions], tmp_path)
    with closing(sqlite3.connect(tmp_path / "test.db")) as tx:
        at_ms = tx.execute("SELECT max(created_at_ms) FROM payments").fetchone()[0]
    before = counts(tmp_path)

    async with open_shop(tmp_path, start_ms=at_ms) as shop:
        for reference, (payment_id, status) in told.statuses.items():
            path = f"/v1/payments/{payment_id}"
            found = await shop.call("GET", path, key=told.api_key, merchant_id=told.merchant_id)
            assert (found.status, found.body["status"], found.body["referenceId"]) == (200, status, reference)
        for path in (
            "/v1/payments",
            "/v1/merchants",
            "/v1/transfers?matched=false",
            "/v1/webhooks/deliveries",
        ):
            listed = await shop.call("GET", path, key=told.api_key)
            assert (listed.status, bool(listed.body["data"])) == (200, True), path
        revealed = await shop.call("POST", "/v1/webhooks/endpoint/reveal", key=told.api_key)
        assert revealed.body["secret"].startswith("whsec_"), "what was sealed opens"
        if versions[1] >= 7:
            answers = await shop.call("GET", f"/v1/payments/{told.paid}", key=told.api_key)
            assert "Ada" in answers.raw.decode()

    assert {(each.version, each.newest) for each in look_at_schemas(tmp_path)} == {(n, n) for n in NEWEST}
    [snapshot] = (tmp_path / "snapshots").iterdir()
    assert counts(snapshot) == before
    assert [each.schema_version for each in read_manifest(snapshot).files] == list(versions)


@pytest.mark.parametrize("versions", OLD, ids=str)
def test_an_upgraded_database_is_whole_and_like_a_new_one(tmp_path: Path, versions: tuple[int, int]) -> None:
    unpack(stored()[versions], tmp_path)
    shutil.copy(tmp_path / "test.db", tmp_path / "live.db")
    before = counts(tmp_path)

    done = upgrade(tmp_path, NOW_MS)

    assert done is not None
    assert [each.name for each in done.databases] == ["office.db", "test.db", "live.db"]
    schemas: dict[str, Schema] = {**dict(FILES), "live.db": "realm"}
    for name, schema in schemas.items():
        with closing(sqlite3.connect(tmp_path / name)) as tx:
            assert (broken_places(tx), schema_differences(tx, schema)) == ([], [])
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    after = counts(tmp_path)
    assert before == {name: {table: after[name][table] for table in before[name]} for name in before}
    assert upgrade(tmp_path, NOW_MS) is None


def test_one_that_was_interrupted_is_carried_out_before_anything_is_looked_at(tmp_path: Path) -> None:
    data, new = tmp_path / "data", tmp_path / "new"
    for folder in (data, new):
        unpack(OLDEST, folder)
    upgrade(new, NOW_MS)
    staged = stage(data)
    for name, _ in FILES:
        shutil.copy(new / name, staged / name)
    plan = Swap(tuple(name for name, _ in FILES), (), snapshot_name(NOW_MS, "upgrade"))
    (data / STAGE / PLAN).write_bytes(msgspec.json.encode(plan))

    assert upgrade(data, NOW_MS + 1) is None, "that was done already"
    assert [each.name for each in (data / "snapshots").iterdir()] == [Path(plan.kept).name]


def test_an_empty_database_is_filled_where_it_lies(tmp_path: Path) -> None:
    unpack(stored()[NEWEST], tmp_path)
    (tmp_path / "live.db").touch()
    assert upgrade(tmp_path, NOW_MS) is None
    assert [each.is_old for each in look_at_schemas(tmp_path)] == [False, False, False]


def test_what_was_there_stays_also_where_the_clock_is_behind(tmp_path: Path) -> None:
    unpack(OLDEST, tmp_path)
    for n in range(SNAPSHOTS_KEPT):
        (tmp_path / snapshot_name(NOW_MS + n, "restore")).mkdir(parents=True)
        (tmp_path / snapshot_name(n, "restore")).mkdir(parents=True)
    done = upgrade(tmp_path, NOW_MS - 1)
    assert done is not None
    assert (str(done.snapshot), done.pruned) == (snapshot_name(NOW_MS - 1, "upgrade"), SNAPSHOTS_KEPT)
    assert (tmp_path / str(done.snapshot) / "test.db").exists()


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(tmp_path: Path) -> None:
    unpack(OLDEST, tmp_path)
    before = contents(tmp_path)

    done = try_upgrade(tmp_path)

    assert [(each.version, each.newest) for each in done.databases] == [(1, NEWEST[0]), (1, NEWEST[1])]
    assert done.snapshot is None
    assert contents(tmp_path) == before
    assert not (tmp_path / "snapshots").exists()


def test_the_copies_of_a_dry_run_that_was_killed_are_swept_away_at_the_next_start(tmp_path: Path) -> None:
    unpack(stored()[NEWEST], tmp_path)
    (tmp_path / DRY_RUN).mkdir()
    (tmp_path / DRY_RUN / "test.db").write_bytes(bytes(1000))
    assert upgrade(tmp_path, NOW_MS) is None
    assert not (tmp_path / DRY_RUN).exists()
    with draft_folder(tmp_path / DRY_RUN):
        assert upgrade(tmp_path, NOW_MS) is None
        assert (tmp_path / DRY_RUN).exists(), "somebody tries it just now"
    (tmp_path / DRY_RUN).symlink_to("office.db")
    assert upgrade(tmp_path, NOW_MS) is None
    assert (tmp_path / DRY_RUN).exists(), "it is somebody's"


BAD = {
    "fails": (
        "INSERT INTO nowhere VALUES (1);",
        "could not be upgraded: migration .* no such table: nowhere",
    ),
    "loses a row": ("DELETE FROM refunds;", "table refunds had 1 rows and has 0 now"),
    "loses a table": ("DROP TABLE refunds;", "table refunds had 1 rows and has no place now"),
    "breaks a reference": (
        "CREATE TABLE child (id REFERENCES merchants (id)); INSERT INTO child VALUES ('nobody');",
        "row 1 of child refers to a row of merchants that is not there",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_an_upgrade_that_goes_wrong_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    sql, words = BAD[bad]
    steps = read_migrations("realm")
    wrong = Migration(len(steps) + 1, "wrong", sql)

    def read(schema: Schema) -> tuple[Migration, ...]:
        return (*steps, wrong) if schema == "realm" else read_migrations(schema)

    unpack(OLDEST, tmp_path)
    before = contents(tmp_path)
    monkeypatch.setattr(module, "read_migrations", read)
    monkeypatch.setattr("payd.store.self_check.read_migrations", read)

    for _ in range(2):
        with pytest.raises(MigrationFailed, match=words) as caught:
            upgrade(tmp_path, NOW_MS)
        assert "Nothing was changed" in str(caught.value)
        assert not isinstance(caught.value.__cause__, MigrationFailed), "it may be that the disk is full"
        assert contents(tmp_path) == before
        assert {each.name for each in tmp_path.iterdir() if each.is_dir()} == set()


@pytest.mark.parametrize("by", ["an earlier one", "itself"])
def test_that_rows_go_is_said_by_the_migration_that_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    said = "\n-- Changes how many rows there are in: refunds.\n"
    first, *more = read_migrations("realm")
    sql = "DELETE FROM refunds;"
    if by == "itself":
        sql += said
    else:
        first = msgspec.structs.replace(first, sql=first.sql + said)
    steps = (first, *more, Migration(len(more) + 2, "takes", sql))

    def read(schema: Schema) -> tuple[Migration, ...]:
        return steps if schema == "realm" else read_migrations(schema)

    unpack(stored()[NEWEST], tmp_path)
    monkeypatch.setattr(module, "read_migrations", read)
    monkeypatch.setattr("payd.store.self_check.read_migrations", read)
    if by == "itself":
        assert upgrade(tmp_path, NOW_MS) is not None
    else:
        with pytest.raises(MigrationFailed, match="table refunds had 1 rows and has 0 now"):
            upgrade(tmp_path, NOW_MS)


def test_copies_are_on_the_disk_before_they_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack(OLDEST, tmp_path)
    done: list[str] = []

    def synced(path: Path) -> None:
        sync_file(path)
        done.append(path.name)

    def committed(directory: Path, swap: Swap) -> None:
        done.append("commit")
        commit(directory, swap)

    monkeypatch.setattr("payd.store.upgrade.sync_file", synced)
    monkeypatch.setattr("payd.store.upgrade.commit", committed)
    upgrade(tmp_path, NOW_MS)

    assert done == [*(name for name, _ in FILES), "commit"]


@pytest.mark.parametrize("act", ["upgrade", "try"])
@pytest.mark.parametrize("where", [100, 4096], ids=["its schema", "a table"])
def test_a_database_that_cannot_be_read_is_said_in_words(tmp_path: Path, where: int, act: str) -> None:
    unpack(OLDEST, tmp_path)
    page = bytearray((tmp_path / "test.db").read_bytes())
    page[where : where + 4096] = b"\xff" * 4096
    (tmp_path / "test.db").write_bytes(page)
    before = contents(tmp_path)
    words = r"(test\.db|the databases) c.*: .*malformed\. Nothing was changed"
    with pytest.raises(MigrationFailed, match=words):
        try_upgrade(tmp_path) if act == "try" else upgrade(tmp_path, NOW_MS)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("act", ["upgrade", "try"])
def test_a_disk_that_is_full_before_all_is_copied_is_named_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    full = sqlite3.OperationalError("database or disk is full")

    def refuse(*_: object) -> None:
        raise full

    unpack(OLDEST, tmp_path)
    before = contents(tmp_path)
    monkeypatch.setattr("payd.store.upgrade.copy_pinned", refuse)
    with pytest.raises(MigrationFailed, match=r"disk is full\. Nothing was changed") as caught:
        try_upgrade(tmp_path) if act == "try" else upgrade(tmp_path, NOW_MS)
    assert caught.value.__cause__ is full
    assert contents(tmp_path) == before
    assert {each.name for each in tmp_path.iterdir() if each.is_dir()} == set()


def test_a_schema_that_is_not_that_of_a_new_database_is_found(tmp_path: Path) -> None:
    unpack(OLDEST, tmp_path)
    with closing(sqlite3.connect(tmp_path / "test.db")) as tx, tx:
        tx.execute("DROP INDEX payments_by_amount")
    with pytest.raises(MigrationFailed, match="index payments_by_amount is missing"):
        upgrade(tmp_path, NOW_MS)


def test_a_database_of_a_newer_payd_is_refused_by_its_name(tmp_path: Path) -> None:
    unpack(OLDEST, tmp_path)
    with closing(sqlite3.connect(tmp_path / "test.db")) as tx:
        tx.execute("PRAGMA user_version = 999")
    before = contents(tmp_path)
    words = r"test\.db is at schema version 999.*run the newer payd again"
    with pytest.raises(DatabaseTooNew, match=words):
        upgrade(tmp_path, NOW_MS)
    with pytest.raises(DatabaseTooNew, match=words):
        try_upgrade(tmp_path)
    assert contents(tmp_path) == before


def test_payments_without_their_accounts_are_refused_also_when_it_is_only_tried(tmp_path: Path) -> None:
    unpack(OLDEST, tmp_path)
    (tmp_path / "office.db").unlink()
    before = contents(tmp_path)
    with pytest.raises(OfficeMissing):
        upgrade(tmp_path, NOW_MS)
    with pytest.raises(OfficeMissing):
        try_upgrade(tmp_path)
    assert contents(tmp_path) == before


def test_a_database_that_was_moved_away_from_its_log_is_refused_and_the_log_stays(tmp_path: Path) -> None:
    unpack(stored()[NEWEST], tmp_path)
    (tmp_path / "test.db").rename(tmp_path / "elsewhere")
    (tmp_path / "test.db-wal").write_bytes(b"what was written last")
    before = contents(tmp_path)
    with pytest.raises(LogAstray):
        upgrade(tmp_path, NOW_MS)
    with pytest.raises(LogAstray):
        try_upgrade(tmp_path)
    assert contents(tmp_path) == before


def test_too_little_room_is_said_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack(OLDEST, tmp_path)
    size = sum((tmp_path / name).stat().st_size for name, _ in FILES)
    free = size * 3 // 2 - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, free))
    for act in (partial(upgrade, tmp_path, NOW_MS), partial(try_upgrade, tmp_path)):
        with pytest.raises(MigrationFailed, match="make room"):
            act()
        assert {each.name for each in tmp_path.iterdir() if each.is_dir()} == set()
    free += 1
    try_upgrade(tmp_path)


def test_who_has_a_database_open_is_not_left_with_the_old_one(tmp_path: Path) -> None:
    unpack(OLDEST, tmp_path)
    with closing(sqlite3.connect(tmp_path / "test.db", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE mine (x)")
        with pytest.raises(MigrationFailed, match=r"another program has test\.db open"):
            upgrade(tmp_path, NOW_MS)


def test_what_is_told_while_it_works_can_end_it(tmp_path: Path) -> None:
    unpack(OLDEST, tmp_path)
    before = contents(tmp_path)
    told: list[tuple[str, str]] = []

    def look(what: str, file: str, _done: int, _total: int) -> None:
        told.append((what, file))
        if (what, file) == ("checking", "test.db"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        upgrade(tmp_path, NOW_MS, look)
    assert ("copying", "office.db") in told
    assert contents(tmp_path) == before
    assert not (tmp_path / STAGE).exists(), "it is as large as the databases"


def test_what_a_stored_shop_was_told_names_no_machine() -> None:
    for folder in stored().values():
        assert read_told(folder).statuses.keys() == {
            "left", "cancelled", "paid", "processing", "failed", "expired"
        }  # fmt: skip
