"""`payd check-config`: what is in effect, and where a mistake is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click

from payd.cli.options import config_options, load_config
from payd.cli.show import show_json
from payd.config import KEYS, Address, Config, Key, unknown_variables

NAME_WIDTH: Final = max(map(len, KEYS))


@click.command("check-config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@config_options
def check_config(config_file: str | None, data_dir: str | None, as_json: bool) -> None:
    """Check payd.toml and the PAYD_* variables, and show what is in effect.

    A mistake ends with exit code 2 and names its file and line.
    """
    config = load_config(config_file, data_dir)
    for variable, meant in unknown_variables(os.environ).items():
        click.echo(f"Note: {variable} sets nothing." + (f" Did you mean {meant}?" if meant else ""), err=True)
    values = {name: _shown(key, _plain(_value(config, name))) for name, key in KEYS.items()}
    if as_json:
        show_json({"file": None if config.file is None else str(config.file), "values": values})
        return
    click.echo(f"File: {config.file or 'none; these are the defaults and the variables'}")
    for name, key in KEYS.items():
        _show(name, key, values[name], _value(config, name) != key.default)


def _show(name: str, key: Key, value: Any, is_changed: bool) -> None:
    """Two lines, which fit a terminal: the value, `*` for one that is not the default, and what it means."""
    shown = " ".join(value) if isinstance(value, list) else str(value)
    line = f"{name:<{NAME_WIDTH}} {'*' if is_changed else ' '} {shown} {key.unit}".rstrip()
    click.secho(line, bold=is_changed)
    click.secho(f"    {key.meaning}", dim=True)


def _value(config: Config, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _shown(key: Key, value: Any) -> Any:
    """A secret's own text belongs on no screen and in no report."""
    return "(set)" if key.kind.is_secret and value else value


def _plain(value: Any) -> Any:
    """As it is written in payd.toml."""
    match value:
        case Address():
            return str(value)
        case tuple():
            return [str(item) for item in value]
        case Path():
            return str(value)
        case None:
            return ""
        case _:
            return value
