"""`payd migrate`: the databases of an older payd, brought to this one, as a start of the server does it."""

from __future__ import annotations

import click
import msgspec

from payd import __version__, logs
from payd.cli.failure import check_there, writing
from payd.cli.meter import meter
from payd.cli.options import config_options, load_config
from payd.cli.running import interruptible
from payd.cli.show import Row, json_option, show_json, show_rows
from payd.cli.teaching import teach
from payd.clock import system_wall_ms
from payd.store.copying import databases_in
from payd.store.lock import hold_data_dir
from payd.store.upgrade import Upgraded, look_at_schemas, try_upgrade, upgrade


@click.command(
    epilog=teach(
        """
payd migrate --dry-run
payd migrate
""",
        codes="they cannot be brought to it, and nothing was changed.",
        then="payd serve",
    )
)
@click.option("--dry-run", is_flag=True, help="Do it with copies that are thrown away, beside the server.")
@json_option
@config_options
def migrate(config_file: str | None, data_dir: str | None, as_json: bool, dry_run: bool) -> None:
    """Bring the databases to this version of payd, checked, or leave them as they are.

    Copies are migrated and checked: whole, with the schema of a new database, with every row. When all are
    right they take the databases' places at once, and what was there stays in data/snapshots/, of which the
    last three are kept, and all of a week. The server does the same at its start.
    """
    logs.configure("auto", "warning")
    config = load_config(config_file, data_dir)
    if not databases_in(config.data_dir):
        check_there(config.data_dir)
    with writing(config.data_dir), interruptible(), meter() as look:
        if dry_run:
            done = try_upgrade(config.data_dir, look)
        else:
            with hold_data_dir(config.data_dir, "upgrade") as directory:
                done = upgrade(directory, system_wall_ms(), look) or Upgraded(
                    look_at_schemas(directory), None
                )
    if as_json:
        show_json({"dryRun": dry_run, **msgspec.to_builtins(done)})
    else:
        _show(done, dry_run)


def _show(done: Upgraded, dry_run: bool) -> None:
    rows: list[Row] = [
        {"name": each.name, "version": each.version, "newest": each.newest} for each in done.databases
    ]
    show_rows(rows, {"name": "Database", "version": "Was at", "newest": "This payd's"}, "No database.")
    if not any(each.is_old for each in done.databases):
        click.echo(f"Nothing to do: all are as payd {__version__} wants them.")
    elif dry_run:
        click.echo("The upgrade works. It was tried with copies; nothing was changed.")
    else:
        click.echo(f"Upgraded and checked. What was there is in {done.snapshot}, in the data directory.")
