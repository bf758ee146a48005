"""What a newcomer starts with: an account, a test key, a shop with destinations, a payd.toml for a laptop."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from payd.cli.act import ask
from payd.config import FILE_NAME, Config, load
from payd.store.durable import make_folder, write_file
from payd.web.call import Request
from payd.web.commands import run_command
from payd.web.dispatch import answer
from payd.web.house import House

ACCOUNT: Final = "main"
SHOP: Final = "Demo Shop"
EMAIL: Final = "shop@example.com"

# Addresses that are nobody's: in the test realm nothing is ever sent to them.
EVM_ADDRESS: Final = "0x1111111111111111111111111111111111111111"
SOLANA_ADDRESS: Final = "29d2S7vB453rNYFdR5Ycwt7y9haRT5fwVwL9zTmBhfV2"
SOLANA: Final = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
DESTINATIONS: Final = (
    ("eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", f"eip155:8453:{EVM_ADDRESS}"),
    ("eip155:8453/slip44:60", f"eip155:8453:{EVM_ADDRESS}"),
    (f"{SOLANA}/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", f"{SOLANA}:{SOLANA_ADDRESS}"),
)
"""USDC and ETH on Base, USDC on Solana."""

LAPTOP_TOML: Final = """\
# Written by payd for a first start on a laptop. `payd check-config` shows every key.
data_dir = "."

[webhooks.test]
# Test mode may call a webhook receiver on this machine.
allow_http = true
allow_networks = ["127.0.0.0/8", "::1/128"]
"""

LAPTOP_MODE: Final = 0o644  # nothing in it is secret: who may look into the folder may read it


@dataclass(frozen=True, slots=True)
class Seeded:
    """What was made. The key is nowhere else."""

    account_id: str
    key_id: str
    api_key: str
    merchant_id: str


def has_account(config: Config) -> bool:
    """Whether there is an account: databases alone may be left from a start that did not get far.

    Raises:
        click.ClickException: The data directory cannot be read, or is in use and nobody answers.
    """
    return (config.data_dir / "office.db").exists() and bool(ask(config, "account.list", {}))


def write_laptop_toml(config: Config, *, named: bool) -> bool:
    """Let the test realm's webhooks call this machine, unless somebody configured something.

    Args:
        config: What is in effect.
        named: Whether its file was asked for by name.

    Returns:
        Whether a file was written into the data directory: load the configuration again.
    """
    path = config.data_dir / FILE_NAME
    if named or path.exists() or not _sets_nothing(config.file):
        return False
    make_folder(config.data_dir)
    write_file(path, LAPTOP_TOML.encode(), LAPTOP_MODE)
    return True


def _sets_nothing(file: Path | None) -> bool:
    """Whether a file is like the one in the source, which only shows the defaults."""
    return file is None or load(file) == Config(data_dir=file.parent / Config().data_dir, file=file)


async def seed_house(house: House) -> Seeded:
    """Make an account, a test key, and a merchant with its destinations."""

    async def ask(command: str, args: dict[str, Any]) -> Any:
        return msgspec.to_builtins(await run_command(house, command, msgspec.json.encode(args)))

    account = await ask("account.create", {"name": ACCOUNT})
    of = {"mode": "test", "account": account["id"]}
    key = await ask("key.create", {**of, "name": "first key"})
    merchant = await ask("merchant.create", {**of, "name": SHOP, "email": EMAIL})
    for asset, destination in DESTINATIONS:
        await ask(
            "destination.add", {**of, "merchant": merchant["id"], "asset": asset, "destination": destination}
        )
    return Seeded(account["id"], key["id"], key["apiKey"], merchant["id"])


async def create_payment(house: House, seeded: Seeded) -> str:
    """A payment to look at, made the way a merchant makes one; returns its link."""
    made = await answer(
        house,
        Request(
            "POST",
            "/v1/payments",
            headers={
                "api-key": seeded.api_key,
                "merchant-id": seeded.merchant_id,
                "content-type": "application/json",
            },
            body=msgspec.json.encode(order("DEMO-1")),
            client_ip="127.0.0.1",
        ),
    )
    assert made.status == 201, made.body
    return str(msgspec.json.decode(made.body)["gatewayUrl"])


def order(reference_id: str, cents: int = 1250) -> dict[str, Any]:
    """The body of a payment in USD, over 12.50 unless somebody wants another amount."""
    return {"referenceId": reference_id, "amount": {"unit": "iso4217/USD", "value": str(cents)}}


def curl_line(base_url: str, seeded: Seeded) -> str:
    """A command that creates a payment, as it can be pasted."""
    body = msgspec.json.encode(order("ORDER-1")).decode()
    return (
        f"curl -s {shlex.quote(base_url + '/v1/payments')}"
        f" -H 'Api-Key: {seeded.api_key}' -H 'Merchant-Id: {seeded.merchant_id}'"
        f" -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    )


def show_key(seeded: Seeded) -> None:
    """Print the key, now or never, in one go: all of it is shown, or nothing."""
    key = f"\nYour API key for test mode. It is shown once, so keep it:\n\n  {seeded.api_key}\n"
    click.echo(f"{key}\nYour merchant, {SHOP}: {seeded.merchant_id}")
