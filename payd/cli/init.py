"""`payd init`: everything a newcomer starts with, without starting a server."""

from __future__ import annotations

import shlex

import click
import trio

from payd import logs
from payd.cli.options import config_options, is_named, load_config
from payd.cli.show import show_json


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@config_options
def init(config_file: str | None, data_dir: str | None, as_json: bool) -> None:
    """Make a data directory with an account, a test key, a demo merchant and its destinations.

    Where no payd.toml is named, one is written into it, which lets test webhooks call this machine.
    An existing data directory is left as it is.
    """
    from payd.cli import seed
    from payd.server import open_house

    logs.configure("auto", "warning")
    config = load_config(config_file, data_dir)
    if not seed.is_empty(config):
        if as_json:
            show_json({"dataDir": str(config.data_dir), "made": False})
            return
        click.echo(f"{config.data_dir} is in use already; nothing was changed. Next: payd serve")
        return
    if seed.write_laptop_toml(config, named=is_named(config_file)):
        config = load_config(config_file, data_dir)

    async def make() -> seed.Seeded:
        async with open_house(config) as house:
            return await seed.seed_house(house)

    seeded = trio.run(make)
    if as_json:
        show_json(
            {
                "dataDir": str(config.data_dir),
                "made": True,
                "accountId": seeded.account_id,
                "apiKey": seeded.api_key,
                "merchantId": seeded.merchant_id,
            }
        )
        return
    where = f" --data-dir {shlex.quote(data_dir)}" if data_dir else ""
    seed.show_key(seeded)
    click.echo(f"\nAll of it lies in {config.data_dir}. Next: payd serve{where}, then paste this:\n")
    click.echo(seed.curl_line(config.public_url(), seeded))
