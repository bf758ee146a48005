"""The doctor looks at the machine: open files, the clock, and how buyers get here."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from payd.cli.doctor_machine import (
    CONNECTIONS_ENOUGH,
    UNSYNCHRONISED,
    clock_state,
    examine_address,
    examine_clock,
    examine_files_limit,
    examine_machine,
    open_files_max,
)
from payd.config import Config, load
from payd.web.limits import FILES_BESIDES

LIVE = '[[chains]]\nid = "eip155:8453"\nrpc = ["https://a.example"]\n'


def configured(folder: Path, text: str) -> Config:
    (folder / "payd.toml").write_text(text)
    return load(folder / "payd.toml", {})


def test_room_for_fewer_files_than_connections_is_a_warning() -> None:
    assert examine_files_limit(1000, 1000 + FILES_BESIDES).level == "ok"
    short = examine_files_limit(1000, 1000 + FILES_BESIDES - 1)
    assert (short.level, f"LimitNOFILE={1000 + FILES_BESIDES}" in short.what_to_do) == ("warning", True)
    assert examine_files_limit(10**6, CONNECTIONS_ENOUGH + FILES_BESIDES).level == "ok"
    assert examine_files_limit(10**6, CONNECTIONS_ENOUGH + FILES_BESIDES - 1).level == "warning"


def test_the_limit_is_that_of_the_process_that_holds_the_directory(tmp_path: Path) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = 1 << 30 if hard == resource.RLIM_INFINITY else hard
    assert open_files_max(tmp_path) == wanted
    for text in (str(os.getpid()), "", "99999999"):
        (tmp_path / "lock").write_text(text)
        assert open_files_max(tmp_path) == wanted


def test_a_clock_that_nothing_keeps_right_is_a_warning_where_there_is_money() -> None:
    assert clock_state() in {None, 0, 1, 2, 3, 4, 5}
    assert list(examine_clock(None, live=True)) == []
    assert [one.level for one in examine_clock(0, live=True)] == ["ok"]
    assert [one.level for one in examine_clock(UNSYNCHRONISED, live=False)] == ["ok"]
    [one] = examine_clock(UNSYNCHRONISED, live=True)
    assert (one.level, "set-ntp" in one.what_to_do) == ("warning", True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (LIVE, ["links begin with http://127.0.0.1:8420, which buyers cannot reach safely"]),
        (
            f'base_url = "https://pay.example.com"\n{LIVE}',
            ["no proxy's word is believed, so all who come count as"],
        ),
        (f'base_url = "https://pay.example.com"\n[http]\ntrusted_proxies = ["127.0.0.1"]\n{LIVE}', []),
        ('listen = "0.0.0.0:8420"\n', ["payd listens on 0.0.0.0:8420, where anybody may reach it"]),
        ('listen = "10.0.0.5:8420"\n', []),
        ('listen = "[2001:4860::1]:8420"\n', ["payd listens on [2001:4860::1]:8420"]),
        ('listen = "localhost:8420"\n', []),
    ],
)
def test_the_way_to_payd_is_looked_at(tmp_path: Path, text: str, words: list[str]) -> None:
    found = [one.words for one in examine_address(configured(tmp_path, text)) if one.level != "ok"]
    assert len(found) == len(words)
    assert all(said.startswith(wanted) for said, wanted in zip(found, words, strict=True))


def test_all_of_it_is_looked_at(tmp_path: Path) -> None:
    found = {one.subject for one in examine_machine(configured(tmp_path, LIVE))}
    assert found >= {"open files", "public address"}
