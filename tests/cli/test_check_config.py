"""`payd check-config` shows what is in effect, and names the line of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.config import KEYS
from tests.terminal import Terminal


def test_every_key_is_shown_with_its_value(payd: Terminal) -> None:
    shown = payd.json("check-config")
    assert shown["file"] is None
    assert set(shown["values"]) == set(KEYS)
    assert shown["values"]["listen"] == "127.0.0.1:8420"
    assert shown["values"]["payments.lifetime_s"] == 900
    assert shown["values"]["webhooks.test.allow_networks"] == []


def test_a_person_sees_what_differs_from_the_default(payd: Terminal) -> None:
    Path("payd.toml").write_text("[payments]\nlifetime_s = 60\n")
    lines = payd("check-config").output.splitlines()
    assert lines[0] == "File: payd.toml"
    [changed] = [line for line in lines if line.startswith("payments.lifetime_s")]
    assert changed.split()[1:4] == ["*", "60", "seconds"]
    assert max(map(len, lines)) <= 80, "it fits a terminal"
    [default] = [line for line in lines if line.startswith("api.body_max")]
    assert "*" not in default


def test_a_mistake_ends_with_2_and_names_its_line(payd: Terminal) -> None:
    Path("payd.toml").write_text("[payments]\n\nlifetime_ms = 60\n")
    assert "payd.toml:3: unknown key payments.lifetime_ms" in payd.error("check-config", code=2)
    assert "payd.toml:3" in payd.error("key", "list", code=2), "every command says so"


def test_a_named_file_is_read(payd: Terminal) -> None:
    Path("other.toml").write_text("[payments]\nlifetime_s = 60\n")
    assert payd.json("check-config", "--config", "other.toml")["values"]["payments.lifetime_s"] == 60
    said = payd.error("check-config", "--config", "nope.toml", code=2)
    assert said == "Error: nope.toml: cannot be read: No such file or directory\n", "no number of an error"


def test_the_data_directory_can_be_typed(payd: Terminal) -> None:
    assert payd.json("check-config", "--data-dir", "elsewhere")["values"]["data_dir"] == "elsewhere"


def test_a_variable_that_sets_nothing_is_pointed_out(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYD_LISTN", "127.0.0.1:1")
    result = payd("check-config")
    assert "PAYD_LISTN sets nothing. Did you mean PAYD_LISTEN?" in result.stderr
    assert "PAYD_LISTN" not in result.stdout


def test_a_secret_is_not_shown(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYD_WEBHOOKS_PROXY", "http://user:hunter2@proxy.example:3128")
    shown = payd("check-config").output
    assert "hunter2" not in shown
    assert payd.json("check-config")["values"]["webhooks.proxy"] == "(set)"
    assert payd.json("check-config")["values"]["metrics.token"] == ""
