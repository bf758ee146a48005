"""What every test has: virtual time, seeded properties, and a realm's database."""

from __future__ import annotations

import gc
import importlib
import inspect
import logging
import os
import signal
import sys
import zlib
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import hypothesis
import pytest
import structlog
import trio
from trio.abc import Clock, Instrument
from trio.testing import MockClock
from werkzeug.routing import Rule

from tests.short import IS_SHORT

if TYPE_CHECKING:
    from payd.store.db import Database
    from tests.shop import Shop

T = TypeVar("T")

# Folders whose tests take seconds each: nodes, browsers, shops and packages by the name of their variant.
SLOW: Final = ("live", "browser", "receivers", "release")

# Python's own. The conftest of a folder may have lifted it already.
NESTING_MAX: Final = 1000

# A shell has what it starts in the background ignore Ctrl-C, and nohup that its terminal is gone. So would
# all that tests start and end by these.
for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

# In CI every run has the same inputs, so that a red run is red again for who looks into it. No deadline: what
# else the machine does is no property of the code.
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def run_in_virtual_time(
    main: Callable[[], Awaitable[T]], *, clock: Clock | None, instruments: Sequence[Instrument]
) -> T:
    """Run a test on a clock that jumps to the next deadline as soon as every task waits.

    A task that waits for a thread looks idle to that clock: a test that needs one is marked `real_time`.
    """
    return trio.run(main, clock=clock or MockClock(autojump_threshold=0), instruments=instruments)


def run_in_real_time(
    main: Callable[[], Awaitable[T]], *, clock: Clock | None, instruments: Sequence[Instrument]
) -> T:
    """Run a test on the machine's own clock."""
    return trio.run(main, clock=clock, instruments=instruments)


def pytest_configure() -> None:
    """Have servers' limit on nesting, which a library lifts when it is imported, and a log that is plain."""
    importlib.import_module("py_ecc")
    sys.setrecursionlimit(NESTING_MAX)
    # By itself it draws each traceback with all local variables, which takes seconds.
    *others, _ = structlog.get_config()["processors"]
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*others, plain])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each async test its clock, and in a short run leave out what is much like another."""
    if IS_SHORT:
        _shorten(config, items)
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            real = item.get_closest_marker("real_time") is not None
            item.add_marker(pytest.mark.trio(run=run_in_real_time if real else run_in_virtual_time))


def _shorten(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of each slow test that comes in variants, keep one: another for each test.

    Outside the slow folders those that start processes are marked `alike`.
    """
    variants: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.parent.name in SLOW or item.get_closest_marker("alike"):
            variants[item.nodeid.partition("[")[0]].append(item)
    kept = {id(of[zlib.crc32(name.encode()) % len(of)]) for name, of in variants.items()}
    left_out = [one for of in variants.values() for one in of if id(one) not in kept]
    config.hook.pytest_deselected(items=left_out)
    dropped = set(map(id, left_out))
    items[:] = [item for item in items if id(item) not in dropped]


def pytest_collection_finish() -> None:
    """Have garbage collection never look at the tests themselves: there are many, and they stay."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def the_process_stays_as_it_is() -> Iterator[None]:
    """A command that runs inside a test sets up logging for the process; the tests after it want theirs."""
    configured, root = structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**configured)
    root.handlers[:], root.level = handlers, level


@pytest.fixture(scope="session", autouse=True)
def garbage_collection_stays_as_it_is() -> Iterator[None]:
    """A server tunes it for the process, for good, and keeps what is there from ever being looked at again.

    In a test's process that is all that earlier tests have left. To undo it after each such test was to look
    at all objects of all tests: a third of what a live test took.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("payd.server._tune_gc", lambda: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def routes_are_compiled_once() -> Iterator[None]:
    """Compile what builds the path of a route once: each house has the same routes in an app of its own."""
    made: dict[tuple[object, ...], Callable[..., tuple[str, str]]] = {}
    compile_builder = Rule._compile_builder

    def compiled(rule: Rule, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        # It takes its rule as an argument, so that all it depends on is this.
        depends = (rule.rule, *rule._trace, str(rule.defaults), append_unknown)
        if depends not in made:
            made[depends] = compile_builder(rule, append_unknown)
        return made[depends]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "_compile_builder", compiled)
        yield


@pytest.fixture(scope="session", autouse=True)
def new_databases_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Migrate each schema once: half of the time of a test with a house went into its databases' making.

    A new file gets what the migrations made of the first one. What tests of migrations call is not replaced.
    """
    from payd.store import db
    from payd.store.durable import make_file
    from payd.store.migrate import Schema, bring_up_to_date

    @cache
    def migrated(schema: Schema) -> bytes:
        path = tmp_path_factory.mktemp("migrated") / f"{schema}.db"
        bring_up_to_date(path, schema)
        return path.read_bytes()

    def copied(path: Path | str, schema: Schema) -> int:
        path = Path(path)
        if not path.exists():
            make_file(path)
            path.write_bytes(migrated(schema))
        return bring_up_to_date(path, schema)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(db, "bring_up_to_date", copied)
        yield


@pytest.fixture
async def realm_db(tmp_path: Path) -> AsyncIterator[Database]:
    """An empty, migrated realm database without threads, so that virtual time waits for it."""
    from payd.store.db import open_database

    async with open_database(tmp_path / "test.db", "realm", inline=True) as db:
        yield db


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Database]:
    """An empty, migrated office database, likewise."""
    from payd.store.db import open_database

    async with open_database(tmp_path / "office.db", "office", inline=True) as db:
        yield db


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """A whole house in virtual time, with a merchant that can be paid."""
    from tests.shop import open_shop

    async with open_shop(tmp_path / "data") as opened:
        yield opened
