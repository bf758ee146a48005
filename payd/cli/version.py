"""`payd version`: of the program, its API, its webhooks, what it runs on and what it is made of."""

from __future__ import annotations

import dataclasses
import platform
from typing import Final, get_args

import click

import payd
from payd.cli.libraries import libraries, vendored
from payd.cli.show import json_option, show_fields, show_json, show_rows
from payd.cli.teaching import teach
from payd.core.event import API_VERSION
from payd.core.version import VERSIONS

LICENSE: Final = "MIT"

EPILOG: Final = teach(
    """
payd version                    payd, Python, SQLite, the databases' schemas
payd version --licenses         every library with its licence
payd version --licenses --json  the same, with where the texts are
"""
)


@click.command(epilog=EPILOG)
@click.option("--licenses", "with_licenses", is_flag=True, help="List what others made, with their licences.")
@json_option
def version(with_licenses: bool, as_json: bool) -> None:
    """Show the version, and what payd runs on and is made of."""
    if with_licenses:
        _show_licenses(as_json)
        return
    from payd.store.connection import SQLITE
    from payd.store.migrate import Schema, read_migrations

    made_of = libraries()
    schemas = {name: read_migrations(name)[-1].version for name in get_args(Schema)}
    if as_json:
        show_json(
            {
                "version": payd.__version__,
                "license": LICENSE,
                "apiVersions": list(VERSIONS),
                "webhookVersion": API_VERSION,
                "python": platform.python_version(),
                "sqlite": SQLITE,
                "schemas": schemas,
                "libraries": {each.name: each.version for each in made_of},
            }
        )
        return
    click.echo(f"payd {payd.__version__}")
    show_fields(
        {
            "Licence": LICENSE,
            "API": ", ".join(VERSIONS),
            "Webhooks": API_VERSION,
            "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
            "SQLite": SQLITE,
            "Schemas": ", ".join(f"{name} {number}" for name, number in schemas.items()),
            "Libraries": f"{len(made_of)}; payd version --licenses lists them",
        }
    )


def _show_licenses(as_json: bool) -> None:
    of_others = (*libraries(), *vendored())
    if as_json:
        show_json([dataclasses.asdict(each) for each in of_others])
        return
    columns = {"name": "Library", "version": "Version", "license": "Licence"}
    show_rows([dataclasses.asdict(each) for each in of_others], columns, "")
