"""`payd serve`: the server, and what a newcomer needs next."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import click

import payd
from payd import logs
from payd.cli.address import check_address, check_ca_file, check_sources_are_ours
from payd.cli.failure import writing
from payd.cli.options import config_options, is_named, load_config
from payd.cli.pasted import pasted
from payd.cli.teaching import teach
from payd.store.lock import check_free

if TYPE_CHECKING:
    from payd.web.house import House


@click.command(
    epilog=teach(
        """
payd serve --demo                  a key and a shop to play with
payd serve --data-dir /srv/payd --config /etc/payd.toml
payd serve --listen 0.0.0.0:8420 --base-url https://pay.example
""",
        then="payd service install, to have it start with the machine",
    )
)
@click.option("--listen", metavar="HOST:PORT", help="Where to serve. [PAYD_LISTEN; 127.0.0.1:8420]")
@click.option("--base-url", metavar="URL", help="What links begin with. [PAYD_BASE_URL; http://LISTEN]")
@click.option(
    "--demo", is_flag=True, help="Where there is no account, make one, with a key and a shop to play with."
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
    hint = partial(pasted, config_file=config_file, data_dir=data_dir)

    async def announce(house: House) -> None:
        say(f"payd {payd.__version__} serves {house.base_url} from {config.data_dir}")
        if house.accounts:
            another, see = hint("key create"), hint("demo")
            say(f"Another key: {another} · see it work: {see} · stop: Ctrl-C")
        elif demo:
            await _first_steps(house, hint("demo"))
        else:
            say(f"There is no account yet. The dashboard makes one, or: {hint('account create NAME')}")
        await _way_in(house)

    with writing(config.data_dir):
        # First what can go wrong: a start that fails leaves nothing behind.
        check_free(config.data_dir)
        check_address(config.listen)
        check_sources_are_ours(config.webhooks.bind)
        for rules in (config.webhooks.test, config.webhooks.live):
            check_ca_file(rules.ca_file)
        if (
            demo
            and not seed.has_account(config)
            and seed.write_laptop_toml(config, named=is_named(config_file))
        ):
            config = load_config(config_file, data_dir, LISTEN=listen, BASE_URL=base_url)
        logs.configure(config.log.format, config.log.level)
        server.run(config, announce=announce)


def say(text: str) -> None:
    """Print it, if that is possible: a full disk of the log is no reason to serve nobody."""
    with suppress(OSError):
        click.echo(text)


async def _first_steps(house: House, demo: str) -> None:
    from payd.cli import seed

    seeded = await seed.seed_house(house)
    link = await seed.create_payment(house, seeded)
    with suppress(OSError):
        seed.show_key(seeded)
    say("\nCreate a payment; paste this into another terminal:\n")
    say(f"  {seed.curl_line(house.base_url, seeded)}")
    say(f"\nSee what the buyer sees, a payment over 12.50 USD:\n\n  {link}")
    say(f"\nWatch the whole job, from a created payment to a verified webhook:\n\n  {demo}\n")


async def _way_in(house: House) -> None:
    """Where the dashboard is; before anybody can sign in, the link that lets the first one in."""
    from payd.store.users import is_anyone
    from payd.web.user_commands import make_link

    if house.office.point(is_anyone):
        say(f"Dashboard: {house.base_url}/")
        return
    link = await make_link(house, "setup")
    say(f"Open the dashboard; this link works once, for a day:\n\n  {link['url']}\n")
