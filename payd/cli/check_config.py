"""`payd check-config`: what is in effect, and where a mistake is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from payd.cli.options import config_options, load_config
from payd.cli.show import show_json, show_rows
from payd.config import KEYS, VARIABLES, Address, Config, unknown_variables


@click.command("check-config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@config_options
def check_config(config_file: str | None, data_dir: str | None, as_json: bool) -> None:
    """Check payd.toml and the PAYD_* variables, and show what is in effect.

    A mistake ends with exit code 2 and names its file and line.
    """
    config = load_config(config_file, data_dir)
    for variable in unknown_variables(os.environ):
        click.echo(
            f"Note: {variable} sets nothing. Variables are: {', '.join(VARIABLES)}, PAYD_CONFIG.", err=True
        )
    values = {name: _plain(_value(config, name)) for name in KEYS}
    if as_json:
        show_json({"file": None if config.file is None else str(config.file), "values": values})
        return
    click.echo(f"File: {config.file or 'none; these are the defaults and the variables'}")
    rows = [
        {
            "name": name,
            "value": values[name],
            "changed": "" if _value(config, name) == key.default else "*",
            **_words(name),
        }
        for name, key in KEYS.items()
    ]
    columns = {"name": "Key", "changed": "", "value": "Value", "unit": "Unit", "meaning": "Meaning"}
    show_rows(rows, columns, "")


def _words(name: str) -> dict[str, str]:
    return {"unit": KEYS[name].unit, "meaning": KEYS[name].meaning}


def _value(config: Config, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


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
