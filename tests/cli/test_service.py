"""`payd service` writes a unit for what is installed here and has systemd start it, or says why not."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from payd.cli import service
from payd.cli.unit import MARK
from tests.terminal import Terminal
from tests.test_readme import README, blocks_of

SYSTEMCTL = """#!/bin/sh
echo "$@" >>"$ASKED"
[ "$2$3" != "$FAILS" ] || { echo "no such luck" >&2; exit 5; }
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that systemd runs; what it was asked, a line each."""
    log, tools, home = tmp_path / "asked", tmp_path / "tools", tmp_path / "home"
    tools.mkdir()
    home.mkdir()
    (tools / "systemctl").write_text(SYSTEMCTL)
    (tools / "systemctl").chmod(0o755)
    for name, value in {
        "ASKED": log,
        "FAILS": "nothing",
        "HOME": home,
        "PATH": f"{tools}:{os.environ['PATH']}",
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(service, "BOOTED", tmp_path)
    monkeypatch.setattr(service, "SYSTEM_UNITS", tmp_path / "units")
    monkeypatch.setattr(service, "HOMES", (tmp_path / "homes",))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return log


def test_print_shows_the_unit_and_writes_nothing(payd: Terminal, asked: Path, tmp_path: Path) -> None:
    shown = payd("service", "install", "--print").output
    assert shown.startswith(MARK)
    assert "payd serve --data-dir /var/lib/payd\n" in shown
    told = payd.json("service", "install", "--print")
    assert told == {"file": str(tmp_path / "units" / "payd.service"), "unit": shown}
    assert not asked.exists()
    assert not (tmp_path / "units").exists()


def test_print_works_where_systemd_is_not(payd: Terminal) -> None:
    assert payd("service", "install", "--print", "--user").output.startswith(MARK)


def test_install_writes_the_unit_and_starts_it(payd: Terminal, asked: Path, tmp_path: Path) -> None:
    said = payd("service", "install").output
    file = tmp_path / "units" / "payd.service"
    assert file.read_text() == payd("service", "install", "--print").output
    assert asked.read_text().splitlines() == ["daemon-reload", "enable payd.service", "restart payd.service"]
    assert str(file) in said
    assert "journalctl -u payd -f" in said
    assert re.search(r"as root: sudo \S*payd user setup-link --data-dir /var/lib/payd$", said, re.M)
    assert [each.name for each in file.parent.iterdir()] == ["payd.service"]


def test_a_user_s_own_goes_into_the_home_with_its_data(payd: Terminal, asked: Path, tmp_path: Path) -> None:
    payd("service", "install", "--user")
    home = tmp_path / "home"
    text = (home / ".config/systemd/user/payd.service").read_text()
    data = home / ".local/share/payd"
    assert f"serve --data-dir {data}\n" in text
    assert data.stat().st_mode & 0o777 == 0o700
    assert asked.read_text().splitlines()[0] == "--user daemon-reload"


def test_the_data_and_the_file_that_are_in_use_are_served(
    payd: Terminal, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payd("init")
    monkeypatch.setattr(service, "uid_of", {tmp_path / "data": 4711}.get)
    shown = payd("service", "install", "--print").output
    assert f"serve --data-dir {tmp_path / 'data'}\n" in shown
    assert "User=4711\n" in shown
    elsewhere = tmp_path / "other.toml"
    elsewhere.write_text('data_dir = "data"\n')
    shown = payd("service", "install", "--print", "--config", "other.toml").output
    assert f"serve --data-dir {tmp_path / 'data'} --config {elsewhere}\n" in shown


def test_root_serves_nobody(
    payd: Terminal, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(service, "uid_of", {tmp_path / "data": 0}.get)
    assert "belongs to root" in payd.error("service", "install", "--data-dir", "data")
    assert "There is no" in payd.error("service", "install", "--data-dir", "nowhere")
    assert not asked.exists()


def test_what_lies_in_a_home_is_nothing_for_a_service_of_the_system(
    payd: Terminal, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEX", str(tmp_path / "homes" / "ada" / "payd"))
    error = payd.error("service", "install", "--print")
    assert f"{tmp_path}/homes/ada/payd is in a home" in error
    assert "or take --user" in error
    mine = payd("service", "install", "--print", "--user").output
    assert f"ExecStart={tmp_path}/homes/ada/payd serve" in mine


def test_the_one_file_is_started_as_such(
    payd: Terminal, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEX", "/usr/local/bin/payd")
    shown = payd("service", "install", "--print").output
    assert "ExecStart=/usr/local/bin/payd serve" in shown
    assert "CacheDirectory=payd" in shown


def test_readme_shows_the_unit_that_is_written_for_the_one_file(
    payd: Terminal, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEX", "/usr/local/bin/payd")
    [shown] = [block.text for block in blocks_of(README.read_text()) if block.text.startswith(MARK)]
    assert shown == payd("service", "install", "--print").output


def test_without_systemd_it_says_what_to_do(
    payd: Terminal, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "BOOTED", Path("/nowhere"))
    error = payd.error("service", "install")
    assert "not run by systemd" in error
    assert "payd service install --print`" in error
    error = payd.error("service", "install", "--data-dir", "/var/lib/my payd")
    assert "payd service install --print --data-dir '/var/lib/my payd'` shows" in error
    assert "payd serve --data-dir '/var/lib/my payd'` is" in error
    assert not asked.exists()


def test_a_path_that_no_unit_can_name_is_refused_before_anything_is_written(
    payd: Terminal, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEX", "/opt/it's/payd")
    assert """ "/opt/it's/payd" has "'" in it""" in payd.error("service", "install", "--print")
    monkeypatch.delenv("PEX")
    error = payd.error("service", "install", "--data-dir", "/var/lib/pay:d")
    assert "'/var/lib/pay:d' has ':' in it" in error
    assert "another name" in error
    assert "\\n" in payd.error("service", "install", "--user", "--data-dir", "pay\nd")
    assert not asked.exists()
    assert not (tmp_path / "units").exists()


def test_without_root_it_says_what_to_do(
    payd: Terminal, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "takes root: sudo payd service" in payd.error("service", "install")
    assert not asked.exists()


def test_a_unit_of_somebody_else_s_is_left_alone(payd: Terminal, asked: Path, tmp_path: Path) -> None:
    file = tmp_path / "units" / "payd.service"
    file.parent.mkdir()
    file.write_text("[Unit]\n")
    for command in ("install", "uninstall"):
        assert "is not payd's own" in payd.error("service", command)
    assert file.read_text() == "[Unit]\n"
    assert not asked.exists()


def test_what_systemd_says_against_it_is_passed_on(
    payd: Terminal, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", "payd.service")
    assert payd.error("service", "install") == "Error: systemctl enable payd.service: no such luck\n"


def test_uninstall_stops_it_and_leaves_the_data(payd: Terminal, asked: Path, tmp_path: Path) -> None:
    assert "nothing to remove" in payd.error("service", "uninstall", "--user")
    payd("service", "install", "--user")
    asked.unlink()
    assert payd.json("service", "uninstall", "--user")["removed"] is True
    assert asked.read_text().splitlines() == ["--user disable --now payd.service", "--user daemon-reload"]
    assert not (tmp_path / "home/.config/systemd/user/payd.service").exists()
    assert (tmp_path / "home/.local/share/payd").is_dir()
