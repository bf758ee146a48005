"""The doctor in the house: what it finds of configuration, disk, server and webhooks."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections import namedtuple
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import payd
from payd.cli.doctor_house import (
    config_problems,
    examine_config,
    examine_data,
    examine_server,
    examine_webhooks,
)
from payd.cli.finding import Finding
from payd.config import Config, ConfigError, load
from payd.core.attention import SPACE_LOW, SPACE_NONE
from tests.cli.test_act import server

Usage = namedtuple("Usage", "total used free")

REALM: dict[str, Any] = {"healthy": True, "failure": None, "now": "", "problems": [], "chains": []}
CHAIN: dict[str, Any] = {"name": "eip155:8453", "head": 120, "blocksBehind": 0, "trouble": "", "alarms": []}


def seen(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Levels and words."""
    return [(one.level, one.words) for one in findings]


def configured(folder: Path, text: str = "", **env: str) -> Config:
    (folder / "payd.toml").write_text(text)
    return load(folder / "payd.toml", {"PAYD_DATA_DIR": str(folder / "data"), **env})


def test_a_valid_file_is_named(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert seen(examine_config(config, {})) == [("ok", f"{tmp_path / 'payd.toml'} is valid")]


def test_no_file_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load(None, {"PAYD_DATA_DIR": str(tmp_path / "none")})
    assert seen(examine_config(config, {})) == [("ok", "there is no payd.toml; the defaults hold")]


def test_a_variable_that_sets_nothing_is_a_warning(tmp_path: Path) -> None:
    [_, finding] = examine_config(configured(tmp_path), {"PAYD_LISTEM": "x"})
    assert (finding.level, finding.what_to_do) == ("warning", "Did you mean PAYD_LISTEN?")


def test_each_mistake_of_a_file_is_an_error() -> None:
    found = config_problems(ConfigError(["line 1: a", "line 2: b"]))
    assert seen(found) == [("error", "line 1: a"), ("error", "line 2: b")]


def test_a_data_directory_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    [finding] = examine_data(tmp_path / "none")
    assert finding.level == "warning"
    assert "payd init" in finding.what_to_do


@pytest.mark.parametrize(
    ("free", "level"),
    [(SPACE_LOW, "ok"), (SPACE_LOW - 1, "warning"), (SPACE_NONE, "warning"), (SPACE_NONE - 1, "error")],
)
def test_little_room_is_a_warning_and_none_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, free))
    [finding] = examine_data(tmp_path)
    assert finding.level == level
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_data_directory_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    [finding] = examine_data(tmp_path / "data")
    assert (finding.level, "no directory" in finding.words) == ("error", True)


def test_a_disk_that_is_mounted_read_only_is_no_question_of_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(tmp_path / "probe"))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    [finding] = examine_data(tmp_path)
    assert (finding.level, "mounted read-only" in finding.words) == ("error", True)
    assert finding.what_to_do == "Look at the disk, and mount it for writing."


def test_where_no_server_runs_it_says_how_to_start_one(tmp_path: Path) -> None:
    [finding] = examine_server(configured(tmp_path))
    assert (finding.level, finding.words) == ("warning", "none runs in this data directory")
    assert "payd serve" in finding.what_to_do


def told(folder: Path, text: str = "", version: str = payd.__version__, **realms: Any) -> list[Finding]:
    """What is found of a server that answers so."""
    config = configured(folder, text)
    config.data_dir.mkdir()
    status = {"version": version, "realms": realms or {"test": REALM}}
    with server(config.data_dir, msgspec.json.encode({"result": status}) + b"\n"):
        return list(examine_server(config))


LIVE = '[[chains]]\nid = "eip155:8453"\nrpc = ["https://a.example"]\n'


def test_a_server_that_runs_well_says_so(tmp_path: Path) -> None:
    found = told(tmp_path, LIVE, test=REALM, live={**REALM, "chains": [CHAIN]})
    assert seen(found) == [
        ("ok", f"it runs, version {payd.__version__}"),
        ("ok", "it has read the chain up to block 120"),
    ]


def test_the_blocks_of_solana_are_slots(tmp_path: Path) -> None:
    name = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
    config = LIVE.replace(CHAIN["name"], name)
    _, read = told(tmp_path, config, live={**REALM, "chains": [{**CHAIN, "name": name}]})
    assert read.words == "it has read the chain up to slot 120"
    (tmp_path / "later").mkdir()
    _, behind = told(
        tmp_path / "later", config, live={**REALM, "chains": [{**CHAIN, "name": name, "blocksBehind": 51}]}
    )
    assert "51 slots behind" in behind.words


@pytest.mark.parametrize(
    ("change", "level", "words"),
    [
        ({"trouble": "https://a.example: it is down"}, "error", "cannot read the chain: https://a.example"),
        ({"blocksBehind": 51}, "warning", "51 blocks behind"),
    ],
)
def test_a_server_that_does_not_get_on_with_a_chain_is_found(
    tmp_path: Path, change: dict[str, Any], level: str, words: str
) -> None:
    found = told(tmp_path, LIVE, live={**REALM, "chains": [{**CHAIN, **change}]})
    assert found[1].level == level
    assert words in found[1].words


def test_alarms_of_the_relayer_are_put_into_words(tmp_path: Path) -> None:
    chain = {**CHAIN, "alarms": ["budget", "something_new"]}
    found = told(tmp_path, LIVE, live={**REALM, "chains": [chain]})
    assert [one.level for one in found[2:]] == ["warning", "warning"]
    assert "gas_per_day" in found[2].words
    assert found[3].words == "something_new"


def test_a_server_that_was_started_before_the_chains_is_to_be_started_again(tmp_path: Path) -> None:
    found = told(tmp_path, LIVE)
    assert (found[1].level, found[1].words) == (
        "warning",
        "it runs with no chain, and payd.toml has eip155:8453",
    )


def test_another_version_is_a_warning_also_where_it_says_less(tmp_path: Path) -> None:
    found = told(tmp_path, version="0.0.1", test={"healthy": True, "failure": None})
    assert [one.level for one in found] == ["warning"]
    assert "0.0.1" in found[0].words


def test_a_store_or_a_delivery_that_stands_still_is_an_error(tmp_path: Path) -> None:
    ill = {**REALM, "healthy": False, "failure": "disk full", "problems": ["webhooks wait"]}
    assert seen(told(tmp_path, test=ill))[1:] == [("error", "disk full"), ("error", "webhooks wait")]


@pytest.mark.parametrize("reply", [b"nonsense\n", b'{"error": {"code": "x", "message": "no"}}\n'])
def test_a_server_that_answers_with_nonsense_is_an_error(tmp_path: Path, reply: bytes) -> None:
    config = configured(tmp_path)
    config.data_dir.mkdir()
    with server(config.data_dir, reply):
        [finding] = examine_server(config)
    assert finding.level == "error"


def test_source_addresses_are_tried(tmp_path: Path) -> None:
    good = configured(tmp_path, '[webhooks]\nbind = ["127.0.0.1"]\n')
    assert seen(examine_webhooks(good)) == [("ok", "deliveries can come from 127.0.0.1")]
    bad = configured(tmp_path, '[webhooks]\nbind = ["192.0.2.1"]\n')
    [finding] = examine_webhooks(bad)
    assert (finding.level, "192.0.2.1" in finding.words) == ("error", True)


@pytest.mark.parametrize("section", ["webhooks.test", "webhooks.live"])
def test_files_of_authorities_are_read(tmp_path: Path, section: str) -> None:
    (tmp_path / "junk.pem").write_text("junk")
    for name in ("junk.pem", "none.pem"):
        config = configured(tmp_path, f'[{section}]\nca_file = "{tmp_path / name}"\n')
        [finding] = examine_webhooks(config)
        assert (finding.level, section in finding.what_to_do) == ("error", True)


def test_without_any_of_it_nothing_is_said_of_webhooks(tmp_path: Path) -> None:
    assert list(examine_webhooks(configured(tmp_path))) == []
