"""`payd restore`: a data directory from a backup."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import msgspec

from payd import logs
from payd.cli.failure import writing
from payd.cli.meter import meter
from payd.cli.options import config_options, load_config
from payd.cli.pasted import Paste, pasted
from payd.cli.running import interruptible
from payd.cli.show import json_option, show_fields, show_json
from payd.cli.teaching import teach
from payd.clock import system_wall_ms
from payd.store.lock import hold_data_dir
from payd.store.restore import Restored
from payd.store.restore import restore as put_back


@click.command(
    epilog=teach(
        """
payd restore backup-1 --data-dir drill
payd restore backup-1 --overwrite
""",
        codes="it is not done, and nothing was changed.",
        then="payd serve",
    )
)
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--overwrite", is_flag=True, help="Also over what is there; that is kept in snapshots/.")
@json_option
@config_options
def restore(
    config_file: str | None, data_dir: str | None, as_json: bool, source: Path, overwrite: bool
) -> None:
    """Make the data directory from the backup SRC, or from one of data/snapshots/.

    Every byte is compared with what the backup says of itself, and every database is looked through, before
    anything is changed. Killed at any moment, all of it is old or all of it is new. Says what cannot be read
    any more where the seal key is not that of the backup. What is replaced is kept in data/snapshots/; where
    it is damaged, and no restore could bring it back, that is said.
    """
    logs.configure("auto", "warning")
    config = load_config(config_file, data_dir)
    with (
        writing(config.data_dir),
        interruptible(),
        hold_data_dir(config.data_dir, "restore") as directory,
        meter() as look,
    ):
        done = put_back(source, directory, overwrite=overwrite, now_ms=system_wall_ms(), look=look)
    if as_json:
        show_json({"dataDir": str(config.data_dir), **msgspec.to_builtins(done)})
    else:
        _show(done, config.data_dir, partial(pasted, config_file=config_file, data_dir=data_dir))


def _show(done: Restored, data_dir: Path, paste: Paste) -> None:
    show_fields(
        {
            "Restored": data_dir,
            "As of": f"{done.manifest.made_at}, by payd {done.manifest.payd}",
            "Files": ", ".join(each.name for each in done.manifest.files),
            "Before": None if done.replaced is None else data_dir / done.replaced,
        }
    )
    click.echo(
        "\nKeys and people that were taken away since are back, and passwords and destinations are as they"
        " were: take them away, and change them, again."
    )
    if done.waiting:
        click.echo(
            "\nThese changes of destinations wait again; one whose time has come is made at the start:"
        )
        for each in done.waiting:
            click.echo(
                f"  {each.merchant_id} {each.settlement_id}: to {each.destination} at {each.applies_at}"
            )
        cancel = paste("merchant cancel-change MERCHANT DESTINATION --mode live")
        click.echo(f"What was taken back since, take back again before the start: {cancel}")
    if done.replaced is not None and done.by_hand is not None:
        click.echo(
            f"\nNo restore brings back what was there before: {done.by_hand}. To have it back by hand, with"
            f" payd stopped, copy the files of {data_dir / done.replaced} over those in {data_dir},"
            " where no -wal and no -shm of another may stay."
        )
    if done.lost:
        click.echo("\nThe seal key of that server is not here. Without it nobody can read:")
        for lost in done.lost:
            click.echo(f"  {lost.what}: {lost.count}, in {lost.database}")
        click.echo(
            f"If you have it, copy it to {data_dir / 'seal.key'} before the start (chmod 600). If not, start,"
            " then rotate webhook secrets, set added headers of webhooks again, and have people set up their"
            " authenticator apps again."
        )
    for name in done.keystores:
        click.echo(f"\nThe relayer's keystore is {data_dir / name}; [relayer] of payd.toml has to name it.")
    click.echo(f"\nNext: {paste('serve')}")
