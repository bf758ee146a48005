"""`payd init`: everything a newcomer starts with, without starting a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import trio

from payd import logs
from payd.cli.failure import writing
from payd.cli.options import Operator, config_options, is_named, load_config
from payd.cli.pasted import pasted
from payd.cli.show import json_option, show_json
from payd.cli.shown_once import shown_or_revoked
from payd.cli.teaching import teach
from payd.config import Config
from payd.store.lock import check_free

if TYPE_CHECKING:
    from payd.cli.seed import Seeded


@click.command(
    epilog=teach(
        """
payd init
payd init --data-dir /srv/payd --json
""",
        then="payd serve",
    )
)
@json_option
@config_options
def init(config_file: str | None, data_dir: str | None, as_json: bool) -> None:
    """Make a data directory with an account, a test key, a demo merchant and its destinations.

    Where no payd.toml is named, one is written into it, which lets test webhooks call this machine.
    Where there is an account already, nothing is changed.
    """
    from payd.cli import seed

    logs.configure("auto", "warning")
    config = load_config(config_file, data_dir)
    serve = pasted("serve", config_file=config_file, data_dir=data_dir)
    with writing(config.data_dir):
        if seed.has_account(config):
            if as_json:
                show_json({"dataDir": str(config.data_dir), "made": False})
                return
            click.echo(f"{config.data_dir} is in use already; nothing was changed. Next: {serve}")
            return
        check_free(config.data_dir)
        if seed.write_laptop_toml(config, named=is_named(config_file)):
            config = load_config(config_file, data_dir)
        seeded = trio.run(_make, config)
    scope = {"mode": "test", "account": seeded.account_id}
    with shown_or_revoked(Operator(config, as_json, scope, config_file, data_dir), seeded.key_id):
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
        seed.show_key(seeded)
    click.echo(f"\nAll of it lies in {config.data_dir}. Next: {serve}, then paste this:\n")
    click.echo(seed.curl_line(config.public_url(), seeded))


async def _make(config: Config) -> Seeded:
    from payd.cli.seed import seed_house
    from payd.server import open_house

    async with open_house(config) as house:
        return await seed_house(house)
