"""What is typed wins over variables, and variables over the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.cli.options import is_named, load_config
from payd.config import Address
from tests.terminal import Terminal


def test_what_is_typed_wins(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my.toml").write_text('data_dir = "file"\nlisten = "127.0.0.1:1"\n')
    monkeypatch.setenv("PAYD_DATA_DIR", "variable")
    assert load_config("my.toml", None).data_dir == Path("variable")
    typed = load_config("my.toml", "typed", LISTEN="127.0.0.1:2", BASE_URL=None)
    assert (typed.data_dir, typed.listen, typed.base_url) == (Path("typed"), Address("127.0.0.1", 2), "")


def test_a_file_is_named_by_option_or_variable(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_named(None)
    assert is_named("payd.toml")
    monkeypatch.setenv("PAYD_CONFIG", "payd.toml")
    assert is_named(None)


def test_the_payd_toml_of_a_data_directory_goes_with_it(payd: Terminal) -> None:
    Path("there").mkdir()
    Path("there/payd.toml").write_text('data_dir = "."\n[payments]\nlifetime_s = 60\n')
    config = load_config(None, "there")
    assert (config.payments.lifetime_s, config.data_dir) == (60, Path("there"))


@pytest.mark.parametrize("command", ["account list", "key list", "app list", "merchant list", "webhook show"])
def test_every_command_takes_the_data_directory_and_json(payd: Terminal, command: str) -> None:
    assert "payd init" in payd.error(*command.split(), "--data-dir", "nowhere", "--json")
    assert not Path("nowhere").exists(), "looking makes nothing"
