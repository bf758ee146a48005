"""`payd doctor`: whether all is well that money will depend on, and what to do where it is not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click
import msgspec
import trio

from payd import logs
from payd.actors.poster import webhook_client
from payd.cli.doctor_files import examine_files
from payd.cli.doctor_house import (
    config_problems,
    examine_config,
    examine_data,
    examine_server,
    examine_webhooks,
)
from payd.cli.doctor_machine import examine_machine
from payd.cli.doctor_outside import examine_origins, examine_public_url, origins_of
from payd.cli.finding import Finding, worst
from payd.cli.options import config_options, load_config
from payd.cli.pasted import pasted
from payd.cli.show import Row, json_option, show_json, show_rows
from payd.cli.teaching import teach
from payd.clock import system_wall_ms
from payd.config import Config, ConfigError
from payd.net.http import Client
from payd.web.command import Mode

MODES: Final[tuple[Mode, ...]] = ("test", "live")
COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command(
    "doctor",
    epilog=teach(
        """
payd doctor
payd doctor --deep
payd doctor --json | python3 -m json.tool
""",
        codes="there is an error",
    ),
)
@click.option("--deep", is_flag=True, help="Read all of every database, however long that takes.")
@json_option
@config_options
@click.pass_context
def doctor(
    ctx: click.Context, config_file: str | None, data_dir: str | None, as_json: bool, deep: bool
) -> None:
    """Look for what is wrong, or soon will be: configuration, files, keys, backups, address, server, nodes.

    Works beside a running server and without one; changes nothing, and shows no secret. Exit code 0: there is
    no error, though there may be warnings. 1: there is one, also where it is in payd.toml.

    Each database is looked through for damage, for a few seconds; of a large one that is a part, and then it
    says so. --deep reads all, and compares every index with its table.
    """
    logs.configure("auto", "critical")  # what goes wrong is a finding
    findings = _examine(config_file, data_dir, deep)
    if as_json:
        show_json({"worst": worst(findings), "findings": findings})
    else:
        _show(findings)
    if worst(findings) == "error":
        ctx.exit(1)


def _examine(config_file: str | None, data_dir: str | None, deep: bool) -> list[Finding]:
    paste = partial(pasted, config_file=config_file, data_dir=data_dir)
    try:
        config = load_config(config_file, data_dir)
    except ConfigError as error:
        return config_problems(error, paste)
    except click.ClickException as unreadable:
        return [Finding("error", "configuration", unreadable.message)]
    return [
        *examine_config(config, os.environ),
        *examine_data(Path(config.data_dir), paste),
        *examine_files(Path(config.data_dir), system_wall_ms(), paste, deep=deep),
        *examine_machine(config),
        *trio.run(_examine_outside, config),
        *examine_server(config, paste),
        *examine_webhooks(config),
        *_examine_live(config),
    ]


async def _examine_outside(config: Config) -> list[Finding]:
    client = Client(may_call=lambda address: True)  # base_url is the operator's own word
    found = await examine_public_url(config, client, system_wall_ms())
    await client.aclose()
    for mode in MODES:
        if origins := await origins_of(config, mode):
            found += await _examine_origins(config, mode, origins)
    return found


async def _examine_origins(config: Config, mode: Mode, origins: Sequence[str]) -> list[Finding]:
    from payd.server import webhook_rules  # brings all of the server

    rules = webhook_rules(config, mode)
    try:
        client = webhook_client(rules)
    except OSError:
        return []  # ca_file: a finding of its own
    found = await examine_origins(origins, mode, rules, client, system_wall_ms())
    await client.aclose()
    return found


def _examine_live(config: Config) -> list[Finding]:
    if not config.chains:
        return [Finding("ok", "live payments", "off: no chain is configured, and test mode needs none")]
    from payd.cli.doctor_chains import examine_live  # brings what signs

    return trio.run(examine_live, config, os.environ, system_wall_ms())


def _show(findings: Sequence[Finding]) -> None:
    columns = {"level": "", "subject": "What", "words": "Found", "what_to_do": "What to do"}
    rows = [{name: value or None for name, value in msgspec.structs.asdict(one).items()} for one in findings]
    show_rows(rows, columns, "Nothing was looked at.", _brief)
    errors, warnings = (sum(one.level == level for one in findings) for level in ("error", "warning"))
    click.echo(f"\n{_counted(errors, 'error')}, {_counted(warnings, 'warning')}.")


def _brief(row: Row) -> str:
    level = click.style(row["level"], fg=COLOURS[row["level"]], bold=True)
    todo = f"\n  → {row['what_to_do']}" if row["what_to_do"] else ""
    return f"{level}  {row['subject']}: {row['words']}{todo}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
