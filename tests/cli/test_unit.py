"""The unit runs what is installed, may write its data and nothing else, and systemd takes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from payd.cli.unit import MARK, STOP_S, Unit, quoted
from payd.web.front import GRACE_S

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


def test_data_in_var_lib_belong_to_a_user_that_systemd_makes_up() -> None:
    assert values(KEPT, "DynamicUser") == ["yes"]
    assert (values(KEPT, "StateDirectory"), values(KEPT, "StateDirectoryMode")) == (["payd"], ["0700"])
    assert (values(KEPT, "ReadWritePaths"), values(KEPT, "User")) == ([], [])
    assert values(KEPT, "ExecStart") == ["/opt/payd/bin/payd serve --data-dir /var/lib/payd"]


def test_data_elsewhere_keep_their_owner_and_are_all_that_may_be_written() -> None:
    assert values(OWNED, "User") == ["payd"]
    assert (values(OWNED, "ProtectSystem"), values(OWNED, "ProtectHome")) == (["strict"], ["yes"])
    assert values(OWNED, "ReadWritePaths") == ['"/srv/my data"']
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
    ("word", "written"),
    [("plain", "plain"), ("a b", '"a b"'), ("100%", "100%%"), ("$HOME", "$$HOME"), ('a"b', '"a\\"b"')],
)
def test_a_path_is_read_back_as_it_is(word: str, written: str) -> None:
    assert quoted(word) == written


def verify(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    file = folder / "payd.service"
    file.write_text(text)
    command: Sequence[str] = ["systemd-analyze", *options, "verify", "--man=no", str(file)]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@KINDS
@pytest.mark.real_time
def test_systemd_takes_it_where_it_is(unit: Unit, tmp_path: Path) -> None:
    here = replace(unit, program=(sys.executable, "-m", "payd"))
    text = here.text()
    assert f"ExecStart={quoted(sys.executable)} -m payd serve" in text
    if shutil.which("systemd-analyze"):
        options = ["--user"] if unit.of_user else []
        taken = verify(tmp_path, text, *options)
        said = [line for line in taken.stderr.splitlines() if "payd.service" in line]
        assert (taken.returncode, said) == (0, []), taken.stderr
        assert verify(tmp_path, text.replace("Type=exec", "Typo=exec"), *options).stderr != taken.stderr
