"""What is typed wins over variables, and variables over the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.cli.options import is_named, load_config
from payd.config import Address, ConfigError
from tests.terminal import Terminal


def test_what_is_typed_wins(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my.toml").write_text('data_dir = "file"\nlisten = "127.0.0.1:1"\n')
    monkeypatch.setenv("PAYD_DATA_DIR", "variable")
    assert load_config("my.toml", None).data_dir == Path("variable")
    typed = load_config("my.toml", "typed", LISTEN="127.0.0.1:2", BASE_URL=None)
    assert (typed.data_dir, typed.listen, typed.base_url) == (Path("typed"), Address("127.0.0.1", 2), "")


def test_what_is_wrong_with_an_option_is_said_of_the_option(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYD_PAYMENTS_LIFETIME_S", "soon")
    with pytest.raises(ConfigError) as refused:
        load_config(None, None, LISTEN="80", BASE_URL="pay.example")
    said = [problem.partition(" must be")[0] for problem in refused.value.problems]
    assert sorted(said) == ["--base-url:", "--listen:", "PAYD_PAYMENTS_LIFETIME_S:"]


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


ELSEWHERE = ("--config", "my payd.toml", "--data-dir", "my data")
THERE = " --config 'my payd.toml' --data-dir 'my data'"


@pytest.fixture
def elsewhere(payd: Terminal) -> Terminal:
    """The program, with a house that is not in the folder's own place."""
    (payd.folder / "my payd.toml").touch()
    payd("account", "create", "main", *ELSEWHERE)
    return payd


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("merchant create Shop --email a@b.example", " ASSET ADDRESS --mode test"),
        (
            "merchant list --account main",
            "payd merchant create NAME --email ADDRESS --mode test --account main",
        ),
        ("key list --account main", "payd key create --mode test --account main"),
        ("app list", "payd app create --mode test"),
        ("account create second", "payd key create --mode test --account second"),
        ("user list", "payd user setup-link"),
    ],
)
def test_a_hint_stays_in_the_house_that_was_typed(elsewhere: Terminal, typed: str, told: str) -> None:
    assert f"{told}{THERE}\n" in elsewhere(*typed.split(), *ELSEWHERE).output


@pytest.mark.parametrize(
    ("typed", "told", "code"),
    [
        ("webhook show", "payd webhook set --url URL --mode test", 1),
        ("webhook test", "payd serve", 3),
        ("events tail", "payd serve", 3),
        ("listen", "payd serve", 3),
    ],
)
def test_so_does_a_refusal(elsewhere: Terminal, typed: str, told: str, code: int) -> None:
    assert f"{told}{THERE}\n" in elsewhere.error(*typed.split(), *ELSEWHERE, code=code)


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("key revoke key_1", "payd key list --mode test"),
        ("app revoke app_1", "payd app list --mode test"),
        ("key list --account none", "payd account list"),
        ("user reset nobody@example.com", "payd user list"),
    ],
)
def test_so_does_the_command_that_a_refusal_names(elsewhere: Terminal, typed: str, told: str) -> None:
    assert f"{told}{THERE}` shows" in elsewhere.error(*typed.split(), *ELSEWHERE)


def test_a_house_that_is_not_there_is_made_where_it_was_looked_for(payd: Terminal) -> None:
    assert "payd init --data-dir 'my data'\n" in payd.error("key", "list", "--data-dir", "my data")


def test_without_a_word_about_the_house_a_hint_has_none(payd: Terminal) -> None:
    assert payd("account", "create", "main").output.endswith("payd key create --mode test --account main\n")


@pytest.mark.parametrize("command", ["account list", "key list", "app list", "merchant list", "webhook show"])
def test_every_command_takes_the_data_directory_and_json(payd: Terminal, command: str) -> None:
    assert "payd init" in payd.error(*command.split(), "--data-dir", "nowhere", "--json")
    assert not Path("nowhere").exists(), "looking makes nothing"
