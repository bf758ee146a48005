"""`payd version`: of the program, of its API, of its webhooks."""

from __future__ import annotations

import platform

import click

import payd
from payd.cli.show import show_json
from payd.core.event import API_VERSION
from payd.core.version import VERSIONS


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def version(as_json: bool) -> None:
    """Show the version."""
    if as_json:
        show_json(
            {
                "version": payd.__version__,
                "apiVersions": list(VERSIONS),
                "webhookVersion": API_VERSION,
                "python": platform.python_version(),
            }
        )
        return
    click.echo(f"payd {payd.__version__}")
