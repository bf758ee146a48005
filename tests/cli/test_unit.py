"""The unit runs what is installed, may write its data and backups and nothing else, and systemd takes it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from payd.cli.unit import MARK, STOP_S, Unit, quoted
from payd.web.front import GRACE_S
from tests.packages import from_debian
from tests.terminal import Terminal
from tests.test_readme import README, blocks_of

PROGRAM = "/usr/local/bin/payd"
DAY_S = 86_400

KEPT = Unit(
    program=("/opt/payd/bin/payd",),
    data_dir=Path("/var/lib/payd"),
    config_file=None,
    user=None,
    of_user=False,
    in_home=False,
    port=8420,
    unpacks=False,
)
OWNED = replace(KEPT, data_dir=Path("/srv/my data"), config_file=Path("/etc/payd.toml"), user="payd")
MINE = replace(KEPT, data_dir=Path("/users/ada/payd"), of_user=True, in_home=True)
KINDS = pytest.mark.parametrize("unit", [KEPT, OWNED, MINE], ids=["kept", "owned", "mine"])


def lines_of(unit: Unit) -> list[str]:
    return unit.text().splitlines()


def values(unit: Unit, key: str) -> list[str]:
    return [line.partition("=")[2] for line in lines_of(unit) if line.startswith(f"{key}=")]


@KINDS
def test_every_unit_is_marked_shut_in_and_stops_as_the_server_does(unit: Unit) -> None:
    assert lines_of(unit)[0] == MARK
    assert values(unit, "NoNewPrivileges") == ["yes"]
    assert values(unit, "SystemCallFilter") == ["@system-service"]
    assert values(unit, "KillSignal") == ["SIGTERM"]
    assert values(unit, "TimeoutStopSec") == [str(STOP_S)]
    assert STOP_S >= GRACE_S + 5
    assert values(unit, "ExecReload") == []
    assert values(unit, "OOMPolicy") == ["continue"]
    assert "#MemoryMax=1G" in lines_of(unit)
    assert values(unit, "RestartPreventExitStatus") == ["2"]  # that of a mistake in payd.toml


def test_with_the_machine_it_starts_once_there_is_a_network_and_its_clock_is_set() -> None:
    for unit in (KEPT, OWNED):
        assert values(unit, "Wants") == ["network-online.target"]
        assert values(unit, "After") == ["network-online.target time-sync.target"]
    assert values(MINE, "After") == [], "the manager of a user knows of neither"


@KINDS
def test_a_start_is_tried_again_for_as_long_as_it_takes(unit: Unit) -> None:
    """Left to itself systemd gives up, for good, after five starts in ten seconds."""
    assert values(unit, "StartLimitIntervalSec") == ["0"]


@KINDS
def test_whatever_ends_it_but_systemd_it_is_started_again(unit: Unit) -> None:
    """A SIGHUP, by which others read their configuration anew, is to systemd no failure."""
    assert values(unit, "Restart") == ["always"]


def test_data_in_var_lib_belong_to_a_user_that_systemd_makes_up() -> None:
    assert values(KEPT, "DynamicUser") == ["yes"]
    assert values(KEPT, "StateDirectory") == ["payd payd-backups"]
    assert values(KEPT, "StateDirectoryMode") == ["0700"]
    assert (values(KEPT, "ReadWritePaths"), values(KEPT, "User")) == ([], [])
    assert values(KEPT, "ExecStart") == ["/opt/payd/bin/payd serve --data-dir /var/lib/payd"]


def test_data_elsewhere_keep_their_owner_and_with_backups_are_all_that_may_be_written() -> None:
    assert values(OWNED, "User") == ["payd"]
    assert (values(OWNED, "ProtectSystem"), values(OWNED, "ProtectHome")) == (["strict"], ["yes"])
    assert values(OWNED, "ReadWritePaths") == ['"/srv/my data" -/var/backups/payd']
    assert values(OWNED, "ExecStart") == [
        '/opt/payd/bin/payd serve --data-dir "/srv/my data" --config /etc/payd.toml'
    ]
    assert values(replace(OWNED, in_home=True), "ProtectHome") == ["read-only"]


def test_a_user_s_unit_has_what_needs_no_rights_and_starts_with_its_manager() -> None:
    assert values(MINE, "WantedBy") == ["default.target"]
    assert [values(MINE, key) for key in ("User", "ProtectSystem", "CapabilityBoundingSet")] == [[], [], []]


@pytest.mark.parametrize(("port", "right"), [(8420, ""), (443, "CAP_NET_BIND_SERVICE"), (0, "")])
def test_only_a_port_that_takes_a_right_is_given_it(port: int, right: str) -> None:
    assert values(replace(KEPT, port=port), "AmbientCapabilities") == [right]
    assert values(replace(KEPT, port=port), "CapabilityBoundingSet") == [right]


def test_the_one_file_unpacks_where_the_unit_may_write() -> None:
    unit = replace(KEPT, unpacks=True)
    assert values(unit, "CacheDirectory") == ["payd"]
    assert "PEX_ROOT=/var/cache/payd" in values(unit, "Environment")


@pytest.mark.parametrize(
    ("word", "argument", "place"),
    [
        ("plain", "plain", "plain"),
        ("a b", '"a b"', '"a b"'),
        ("100%", "100%%", "100%%"),
        ("$HOME", "$$HOME", "$HOME"),
        ('a"b', '"a\\"b"', '"a\\"b"'),
        ("a\\b", "a\\\\b", "a\\\\b"),
    ],
)
def test_only_an_argument_has_its_dollars_doubled(word: str, argument: str, place: str) -> None:
    assert (quoted(word, "%$"), quoted(word, "%")) == (argument, place)


def words_of(value: str, *, c_escapes: bool) -> list[str]:
    """What systemd makes of a value: words between blanks, in quotes or not, without backslashes.

    Source: systemd.syntax(7), "Quoting"; extract_first_word() of systemd.
    """
    words, word, quote, letters = [], None, "", iter(value)
    for letter in letters:
        if letter == "\\":
            escaped = next(letters)
            assert not c_escapes or escaped in "\"'\\", "others have a meaning of their own"
            word = (word or "") + escaped
        elif quote:
            quote, word = ("", word) if letter == quote else (quote, (word or "") + letter)
        elif letter in "\"'":
            quote, word = letter, word or ""
        elif letter in " \t":
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + letter
    assert not quote
    return words + ([] if word is None else [word])


def replaced(word: str, sign: str) -> str:
    """A word with each two of a sign as one; a single one begins what systemd replaces, and there is none."""
    assert sign not in word.replace(2 * sign, "")
    return word.replace(2 * sign, sign)


def read_back(unit: Unit) -> tuple[list[str], list[str], list[str]]:
    """The command, what may be written, and the state directories, as systemd has them."""
    [command], [places], [states] = (
        values(unit, key) or [""] for key in ("ExecStart", "ReadWritePaths", "StateDirectory")
    )
    program, *arguments = (replaced(word, "%") for word in words_of(command, c_escapes=True))
    # A program's path is taken as it is, and variables are replaced in its arguments.
    read = [program, *(replaced(word, "$") for word in arguments)]
    return (
        read,
        [replaced(word, "%") for word in words_of(places, c_escapes=False)],
        [replaced(word, "%") for word in words_of(states, c_escapes=True)],
    )


NAMES = st.text("ab \t'\"\\%$;:#{}=-é\u2003\n\x7f\udcff", min_size=1, max_size=8)


@given(program=NAMES, data=NAMES, config=NAMES, user=st.sampled_from([None, "payd"]))
@example(program="a", data="a b$c%d\"e'f\\", config="100% $HOME", user="payd")
@example(program="a %$b", data="a %'b", config="; #", user=None)
def test_every_path_is_read_back_as_it_is_or_refused(
    program: str, data: str, config: str, user: str | None
) -> None:
    data_dir = Path("/srv" if user else "/var/lib") / f"x{data}"
    unit = replace(
        KEPT, program=(f"/opt/{program}/payd", "-m", "payd"), data_dir=data_dir,
        config_file=Path(f"/etc/{config}.toml"), user=user,
    )  # fmt: skip
    if refused := dict(unit.unsayable()):
        assert all(set(what) & {*"\n\t\x7f\udcff\\\"':$"} for what in refused.values())
        return
    command, places, states = read_back(unit)
    config_file = str(unit.config_file)
    serve = ["serve", "--data-dir", str(data_dir), "--config", config_file]
    assert command == [*unit.program, *serve]
    assert places == ([str(data_dir), "-/var/backups/payd"] if user else [])
    assert states == ([] if user else [data_dir.name, f"{data_dir.name}-backups"])


@pytest.mark.parametrize(
    ("unit", "what"),
    [
        (replace(KEPT, program=("/opt/it's/payd",)), ("/opt/it's/payd", "'")),
        (replace(KEPT, program=("/opt/a\\b/payd",)), ("/opt/a\\b/payd", "\\")),
        (replace(KEPT, program=("/opt/${A}/payd",)), ("/opt/${A}/payd", "${")),
        (replace(OWNED, data_dir=Path("/srv/a\nUser=root")), ("/srv/a\nUser=root", "\n")),
        (replace(KEPT, data_dir=Path("/var/lib/a:b")), ("/var/lib/a:b", ":")),
        (replace(OWNED, config_file=Path("/etc/\udcff")), ("/etc/\udcff", "\udcff")),
    ],
)
def test_what_systemd_takes_in_no_spelling_is_known(unit: Unit, what: tuple[str, str]) -> None:
    assert list(unit.unsayable()) == [what]


def verify(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What systemd says of a unit."""
    program = from_debian("systemd-analyze", "systemd")
    command: Sequence[str] = [program, *options, "verify", "--man=no", str(file)]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(file.parent)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def check_taken(file: Path, *options: str) -> None:
    """Systemd has nothing against a unit."""
    taken = verify(file, *options)
    said = [line for line in taken.stderr.splitlines() if file.stem in line]
    assert (taken.returncode, said) == (0, []), taken.stderr


@KINDS
@pytest.mark.real_time
def test_systemd_takes_it(unit: Unit, tmp_path: Path) -> None:
    here = replace(unit, program=(sys.executable, "-m", "payd"))
    file, options = tmp_path / "payd.service", ["--user"] if unit.of_user else []
    file.write_text(here.text())
    assert f"ExecStart={quoted(sys.executable, '%')} -m payd serve" in file.read_text()
    check_taken(file, *options)
    file.write_text(here.text().replace("Type=exec", "Typo=exec"))
    assert "Typo" in verify(file, *options).stderr


@pytest.mark.real_time
def test_systemd_finds_a_program_whose_path_has_signs_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "my 100% of $b;c"
    folder.mkdir()
    unit = replace(OWNED, program=(program_in(folder),), data_dir=folder)
    file = tmp_path / "payd.service"
    file.write_text(unit.text())
    check_taken(file)
    file.write_text(unit.text().replace("%%", ""))
    assert "is not executable" in verify(file).stderr


def of_readme(mark: str) -> list[str]:
    return [block.text for block in blocks_of(README.read_text()) if block.mark == mark]


def program_in(folder: Path) -> str:
    """A `payd` that can be executed; its path."""
    program = folder / "payd"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m payd "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.mark.real_time
def test_systemd_takes_each_unit_of_readme(tmp_path: Path) -> None:
    program = program_in(tmp_path)
    service, backup, timer = (text.replace(PROGRAM, program) for text in of_readme("unit"))
    for name, text in {
        "payd.service": service,
        "payd-backup.service": backup,
        "payd-backup.timer": timer,
    }.items():
        (tmp_path / name).write_text(text)
        check_taken(tmp_path / name)
    (tmp_path / "payd-backup.timer").write_text(timer.replace("04:30", "at night"))
    assert "lacks value" in verify(tmp_path / "payd-backup.timer").stderr


def test_the_hour_of_backups_is_there_once_each_night_wherever_clocks_are_changed() -> None:
    at = re.search(r"OnCalendar=\*-\*-\* (\d\d):(\d\d)$", of_readme("unit")[2], re.M)
    assert at is not None
    hour, minute = int(at[1]), int(at[2])
    [cron] = of_readme("cron")
    assert cron.startswith(f"{minute} {hour} * * * ")
    zones = [ZoneInfo(name) for name in available_timezones()]
    assert zones
    # systemd leaves a time out that a night does not have; one that it has twice is of two offsets.
    nights = [datetime(2027, 1, 1, hour, minute) + timedelta(days=night) for night in range(365)]
    assert not [
        (zone, night)
        for zone in zones
        for night in nights
        if zone.utcoffset(night) != zone.utcoffset(night.replace(fold=1))
    ]


def commands_of_backups() -> dict[str, list[str]]:
    """The commands of README that make a backup each night, as the shell or systemd reads them."""
    lines = of_readme("unit")[1].splitlines()
    words = [line.partition("=")[2] for line in lines if line.startswith("ExecStart")]
    [cron] = of_readme("cron")
    return {
        "systemd": [each.replace("$$", "$").replace("%%", "%") for each in words],
        "cron": [cron.split(maxsplit=5)[5].replace("\\%", "%")],
    }


@pytest.mark.parametrize("by", ["systemd", "cron"])
@pytest.mark.real_time
def test_each_night_there_is_a_backup_and_one_less_of_a_month_ago(
    begun: Terminal, tmp_path: Path, by: str
) -> None:
    backups = tmp_path / "elsewhere"
    old, recent = backups / "old", backups / "recent"
    for folder, days in ((old, 40), (recent, 20)):
        folder.mkdir(parents=True)
        (folder / "payd.db").touch()
        os.utime(folder, times=(time.time() - days * DAY_S,) * 2)
    link = tmp_path / "backups"  # as a state directory of a user that systemd makes up
    link.symlink_to(backups)
    program = program_in(tmp_path)
    for command in commands_of_backups()[by]:
        for old_path, new in (
            (PROGRAM, program),
            ("/var/lib/payd-backups", str(link)),
            ("/var/backups/payd", str(link)),
            ("/var/lib/payd", str(begun.folder / "data")),
            ("/srv/payd", str(begun.folder / "data")),
        ):
            command = command.replace(old_path, new)
        env = {"PATH": "/usr/bin:/bin", "HOME": "/", "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            ["/bin/sh", "-c", command], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert {each.name for each in backups.iterdir()} == {"recent", time.strftime("%Y-%m-%d")}
    assert (backups / time.strftime("%Y-%m-%d") / "manifest.json").is_file()
