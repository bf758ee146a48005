"""`payd serve`: the server, and what a newcomer needs next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

import payd
from payd import logs
from payd.cli.options import config_options, is_named, load_config

if TYPE_CHECKING:
    from payd.web.house import House


@click.command()
@click.option("--listen", metavar="HOST:PORT", help="Where to serve. [PAYD_LISTEN; 127.0.0.1:8420]")
@click.option("--base-url", metavar="URL", help="What links begin with. [PAYD_BASE_URL; http://LISTEN]")
@click.option(
    "--demo", is_flag=True, help="On the first start make an account, a key and a shop to play with."
)
@config_options
def serve(
    config_file: str | None, data_dir: str | None, listen: str | None, base_url: str | None, demo: bool
) -> None:
    """Run the server until it is told to stop.

    The first Ctrl-C or SIGTERM finishes what is under way, a second one stops at once. Logs go to standard
    error.
    """
    from payd import server
    from payd.cli import seed

    config = load_config(config_file, data_dir, LISTEN=listen, BASE_URL=base_url)
    first = demo and seed.is_empty(config)
    if first and seed.write_laptop_toml(config, named=is_named(config_file)):
        config = load_config(config_file, data_dir, LISTEN=listen, BASE_URL=base_url)
    logs.configure(config.log.format, config.log.level)

    async def announce(house: House) -> None:
        click.echo(f"payd {payd.__version__} serves {house.base_url} from {config.data_dir}")
        if first:
            await _first_steps(house)
        elif not house.accounts:
            click.echo("There is no account yet. Make one with: payd account create NAME")

    server.run(config, announce=announce)


async def _first_steps(house: House) -> None:
    from payd.cli import seed

    seeded = await seed.seed_house(house)
    link = await seed.create_payment(house, seeded)
    seed.show_key(seeded)
    click.echo("\nCreate a payment; paste this into another terminal:\n")
    click.echo(f"  {seed.curl_line(house.base_url, seeded)}")
    click.echo(f"\nSee what the buyer sees, a payment over 12.50 USD:\n\n  {link}")
    click.echo("\nWatch the whole job, from a created payment to a verified webhook:\n\n  payd demo\n")
