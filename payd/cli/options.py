"""What every command takes: where the configuration is, which mode and account, and whether to print JSON."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from payd.cli.act import ask
from payd.cli.as_commands import as_commands
from payd.cli.failure import Refused, told, writing
from payd.cli.pasted import pasted, with_options
from payd.cli.show import json_option, show_json
from payd.config import KEYS, Config, ConfigError, load

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Operator:
    """One command's circumstances.

    Attributes:
        scope: The mode and the account, for commands on a realm.
        config_file: `--config`, where it was typed.
        data_dir: `--data-dir`, where it was typed.
    """

    config: Config
    as_json: bool
    scope: dict[str, str]
    config_file: str | None = None
    data_dir: str | None = None

    def ask(self, command: str, **args: Any) -> Any:
        """Have a command of `web/commands.py` done; what is None goes unsaid.

        Raises:
            click.ClickException: It was refused, or the data directory is in use.
        """
        given = {name: value for name, value in args.items() if value is not None}
        try:
            with told():
                return ask(self.config, command, {**self.scope, **given}, self.pasted_here)
        except Refused as refused:
            raise Refused(as_commands(refused.message, self.pasted, self.pasted_here)) from refused

    def printed_json(self, found: Any) -> bool:
        """Print it as JSON where that was asked for; whether it was, and no more is to be said."""
        if self.as_json:
            show_json(found)
        return self.as_json

    def pasted(self, words: str) -> str:
        """A command on the same realm and account, for a hint."""
        return self.pasted_here(with_options(words, self.scope))

    def pasted_here(self, words: str) -> str:
        """A command on the same house, for a hint, whatever its realm."""
        return pasted(words, config_file=self.config_file, data_dir=self.data_dir)


def load_config(file: str | None, data_dir: str | None, **overrides: str | None) -> Config:
    """The configuration, with what was typed on top of file and environment.

    Args:
        file: `--config`.
        data_dir: `--data-dir`.
        overrides: Further variables without `PAYD_`, such as `LISTEN`.
    """
    typed = {f"PAYD_{name}": value for name, value in {"DATA_DIR": data_dir, **overrides}.items() if value}
    env = {**os.environ, **typed}
    # A payd.toml is looked for there as well.
    with writing(Path(env.get("PAYD_DATA_DIR") or KEYS["data_dir"].default)):
        try:
            return load(Path(file) if file else None, env)
        except ConfigError as error:
            raise ConfigError([_as_typed(problem, typed) for problem in error.problems]) from None


def _as_typed(problem: str, typed: Mapping[str, str]) -> str:
    """What is wrong with a variable, said of the option that it was typed as."""
    variable, _, words = problem.partition(": ")
    option = variable.removeprefix("PAYD_").lower().replace("_", "-")
    return f"--{option}: {words}" if variable in typed else problem


def is_named(file: str | None) -> bool:
    """Whether somebody said which payd.toml to read."""
    return bool(file or os.environ.get("PAYD_CONFIG"))


def config_options(function: F) -> F:
    """Adds `--config` and `--data-dir`."""
    for option in (
        click.option("--data-dir", metavar="DIR", help="Databases and admin socket. [PAYD_DATA_DIR; data]"),
        click.option("--config", "config_file", metavar="FILE", help="payd.toml to read. [PAYD_CONFIG]"),
    ):
        function = option(function)
    return function


def operates(function: Callable[..., None]) -> Callable[..., None]:
    """The function gets an `Operator` first."""

    @functools.wraps(function)
    def command(*, config_file: str | None, data_dir: str | None, as_json: bool, **rest: Any) -> None:
        scope = {name: rest.pop(name) for name in ("mode", "account") if rest.get(name) is not None}
        rest.pop("account", None)
        config = load_config(config_file, data_dir)
        function(Operator(config, as_json, scope, config_file, data_dir), **rest)

    return config_options(json_option(command))


def on_realm(function: Callable[..., None]) -> Callable[..., None]:
    """As `operates`, with `--mode` and `--account`."""
    return realm_options(operates(function))


def realm_options(function: F) -> F:
    """Adds `--mode` and `--account`."""
    mode = click.option(
        "--mode", type=click.Choice(["test", "live"]), default="test", show_default=True, help="Which realm."
    )
    account = click.option("--account", metavar="NAME|ID", help="Whose. Needed when there are several.")
    return mode(account(function))
