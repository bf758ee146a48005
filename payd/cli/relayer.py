"""`payd relayer`: the key that pays the gas of signed payments, in a file of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from payd.cli.failure import Refused
from payd.cli.show import show_fields, show_json

FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def relayer() -> None:
    """Make and show the key that pays for gas.

    With it, a buyer only signs: payd submits what was signed and pays the network's fee. It needs no server.
    """


@relayer.command("create")
@click.argument("file", type=FILE)
@click.option(
    "--password-file",
    type=FILE,
    metavar="FILE",
    help="Its first line is the password. Without: PAYD_RELAYER_PASSWORD, or you are asked.",
)
@click.option("--small", is_flag=True, help="For machines with less than half a gigabyte of memory.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def create(file: Path, password_file: Path | None, small: bool, as_json: bool) -> None:
    """Make a key, encrypted with a password, in a new FILE."""
    from payd.chains.evm.keystore import create as create_keystore
    from payd.chains.evm.keystore import read_password

    with _told():
        password = read_password(password_file, os.environ)
        if password is None:
            password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        signer = create_keystore(file, password, small=small)
    _show(signer.address, file, as_json)
    if not as_json:
        _explain(file, password_file)


@relayer.command("show")
@click.argument("file", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def show(file: Path, as_json: bool) -> None:
    """Show the address of the key in FILE. Needs no password."""
    from payd.chains.evm.keystore import address_in

    with _told():
        address = address_in(file)
    _show(address, file, as_json)


@contextmanager
def _told() -> Iterator[None]:
    from payd.chains.evm.keystore import KeystoreUnusable

    try:
        yield
    except KeystoreUnusable as unusable:
        raise Refused(str(unusable)) from unusable


def _show(address: str, file: Path, as_json: bool) -> None:
    from payd.core.caip import to_checksum_address

    shown = {"address": to_checksum_address(address), "keystore": str(file)}
    if as_json:
        show_json(shown)
    else:
        show_fields({"Address": shown["address"], "Keystore": shown["keystore"]})


def _explain(file: Path, password_file: Path | None) -> None:
    click.echo(
        "\nFund it: send the address a little of the native coin of each chain on which it pays the gas,\n"
        "such as ETH on Base. What twenty payments cost is enough to begin with.\n"
        "\nWhoever has this file and its password can take that gas money, and nothing else: funds go from\n"
        "the buyer to the merchant and never through this key. If it is lost, another one takes its place.\n"
        "\nThese lines go into payd.toml:\n"
    )
    click.echo("[relayer]")
    click.echo(f"keystore = {_quoted(file)}")
    if password_file is None:
        click.echo("# The password is read from PAYD_RELAYER_PASSWORD, or from a file that you name here:")
        click.echo('# password_file = "…"')
    else:
        click.echo(f"password_file = {_quoted(password_file)}")


def _quoted(path: Path) -> str:
    """A path as TOML writes it, good from any folder."""
    return msgspec.json.encode(str(path.absolute())).decode()
