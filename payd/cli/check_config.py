"""`payd check-config`: what is in effect, and where a mistake is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import click

from payd.chains.assets import shipped_book
from payd.cli.options import config_options, load_config
from payd.cli.show import json_option, show_json
from payd.cli.teaching import teach
from payd.config import KEYS, ROWS, Key, chain_config, unknown_variables
from payd.config.shown import for_people, shown_value, value_of
from payd.core.caip import parse_asset

NAME_WIDTH: Final = max(map(len, KEYS))


@click.command(
    "check-config",
    epilog=teach("""
payd check-config
payd check-config --config payd.toml
PAYD_LISTEN=:80 payd check-config --json
"""),
)
@json_option
@config_options
def check_config(config_file: str | None, data_dir: str | None, as_json: bool) -> None:
    """Check payd.toml and the PAYD_* variables, and show what is in effect.

    A mistake ends with exit code 2 and names its file and line.
    """
    config = load_config(config_file, data_dir)
    for variable, meant in unknown_variables(os.environ).items():
        click.echo(f"Note: {variable} sets nothing." + (f" Did you mean {meant}?" if meant else ""), err=True)
    values = {name: shown_value(key, value_of(config, name)) for name, key in KEYS.items()}
    if as_json:
        rows = {name: [_row_shown(name, row) for row in value_of(config, name)] for name in ROWS}
        show_json({"file": None if config.file is None else str(config.file), "values": values, **rows})
        return
    click.echo(f"File: {config.file or 'none; these are the defaults and the variables'}")
    for name, key in KEYS.items():
        _show(name, key, values[name], value_of(config, name) != key.default)
    for chain in config.chains:
        _show_row("chains", chain, chain_config({"id": chain.id, "rpc": chain.rpc}))
    for row in config.assets:
        _show_row("assets", row, shipped_book().find(parse_asset(row.asset)) or row)


def _show_row(name: str, row: Any, default: Any) -> None:
    """A table of an array, a line a key; `*` for what differs from what ships for such a row."""
    click.echo(f"[[{name}]]")
    shown = _row_shown(name, row)
    for key, value in shown.items():
        is_changed = getattr(row, key) != getattr(default, key)
        text = _line(key, max(map(len, shown)), is_changed, value, _keys(name, row)[key].unit)
        click.secho(f"    {text}", bold=is_changed)


def _row_shown(name: str, row: Any) -> dict[str, Any]:
    return {key: shown_value(each, getattr(row, key)) for key, each in _keys(name, row).items()}


def _keys(name: str, row: Any) -> Mapping[str, Key]:
    rows = ROWS[name]
    return rows.kind_of(getattr(row, rows.by)).keys


def _show(name: str, key: Key, value: Any, is_changed: bool) -> None:
    """Two lines, which fit a terminal: the value, `*` for one that is not the default, and what it means."""
    click.secho(_line(name, NAME_WIDTH, is_changed, value, key.unit), bold=is_changed)
    click.secho(f"    {key.meaning}", dim=True)


def _line(name: str, width: int, is_changed: bool, value: Any, unit: str) -> str:
    return f"{name:<{width}} {'*' if is_changed else ' '} {for_people(value)} {unit}".rstrip()
