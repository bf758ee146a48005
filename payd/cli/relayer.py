"""`payd relayer`: the key that pays the network's fees of signed payments, in a file of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from payd.cli.asked import ask_password
from payd.cli.failure import Refused
from payd.cli.sections import Sections
from payd.cli.show import json_option, show_fields, show_json
from payd.cli.teaching import teach

if TYPE_CHECKING:
    from payd.chains.keystore import Addresses

FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(
    cls=Sections,
    epilog=teach("""
payd relayer create relayer.json
payd relayer show relayer.json
"""),
)
def relayer() -> None:
    """Make and show the key that pays for gas.

    With it, a buyer only signs: payd submits what was signed and pays the network's fee. The one key has an
    address on EVM chains and another one on Solana. It needs no server.
    """


@relayer.command(
    "create",
    epilog=teach(
        """
payd relayer create relayer.json
payd relayer create relayer.json --password-file relayer.password --json
""",
        then="send it a little of the coin, and payd doctor",
    ),
)
@click.argument("file", type=FILE)
@click.option(
    "--password-file",
    type=FILE,
    metavar="FILE",
    help="Its first line is the password. Without: PAYD_RELAYER_PASSWORD, or you are asked.",
)
@click.option("--small", is_flag=True, help="For machines with less than half a gigabyte of memory.")
@json_option
def create(file: Path, password_file: Path | None, small: bool, as_json: bool) -> None:
    """Make a key, encrypted with a password, in a new FILE."""
    from payd.chains.keystore import create as create_keystore
    from payd.chains.keystore import read_password

    with _told():
        password = read_password(password_file, os.environ)
        if password is None:
            password = ask_password("Password", twice=True)
        addresses = create_keystore(file, password, small=small)
    _show(addresses, file, as_json)
    if not as_json:
        _explain(file, password_file)


@relayer.command(
    "show",
    epilog=teach("""
payd relayer show relayer.json
payd relayer show relayer.json --json
"""),
)
@click.argument("file", type=FILE)
@click.option(
    "--password-file",
    type=FILE,
    metavar="FILE",
    help="For a file that does not say its addresses. Without: PAYD_RELAYER_PASSWORD.",
)
@json_option
def show(file: Path, password_file: Path | None, as_json: bool) -> None:
    """Show the addresses of the key in FILE.

    What `payd relayer create` made needs no password for that. A file that another program or an earlier payd
    made may lack an address; with the password it is worked out from the key.
    """
    from payd.chains.keystore import addresses_in, addresses_of, read_key, read_password

    with _told():
        addresses = addresses_in(file)
        if None in addresses and (password := read_password(password_file, os.environ)) is not None:
            addresses = addresses_of(read_key(file, password))
    _show(addresses, file, as_json)


@relayer.command(
    "export",
    epilog=teach("""
payd relayer export relayer.json
"""),
)
@click.argument("file", type=FILE)
@json_option
def export(file: Path, as_json: bool) -> None:
    """Print the Solana key of FILE, to bring what is left on it elsewhere.

    A Solana wallet imports it ("import private key"), and then moves its SOL like any other. Stop the server
    first, or it goes on paying with it. The password is asked for, whatever payd.toml says. (Ethereum wallets
    import FILE itself.)
    """
    from payd.chains.keystore import addresses_of, read_key
    from payd.chains.solana.fee_payer import exported

    click.echo(
        "Whoever sees what comes next can take all SOL of this key. Do it where nobody looks on and nothing\n"
        "records the screen, and throw the text away afterwards. It opens no other funds.",
        err=True,
    )
    password = ask_password(f"Password of {file}")
    with _told():
        key = read_key(file, password)
    if as_json:
        show_json({"solana_address": addresses_of(key).solana, "key": exported(key)})
        return
    click.echo(f"Address: {addresses_of(key).solana}", err=True)
    click.echo(exported(key))


@contextmanager
def _told() -> Iterator[None]:
    from payd.chains.keystore import KeystoreUnusable

    try:
        yield
    except KeystoreUnusable as unusable:
        raise Refused(str(unusable)) from unusable


def _show(addresses: Addresses, file: Path, as_json: bool) -> None:
    from payd.core.caip import to_checksum_address

    evm = None if addresses.evm is None else to_checksum_address(addresses.evm)
    if as_json:
        show_json({"address": evm, "solana_address": addresses.solana, "keystore": str(file)})
        return
    unknown = "not in the file; name its password with --password-file"
    show_fields(
        {
            "On EVM chains": evm or unknown,
            "On Solana": addresses.solana or unknown,
            "Keystore": str(file),
        }
    )


def _explain(file: Path, password_file: Path | None) -> None:
    click.echo(
        "\nFund it: send the first address a little of the native coin of each EVM chain on which it pays\n"
        "the gas, such as ETH on Base, and the second one some SOL. What twenty payments cost is enough to\n"
        "begin with; on Solana 0.05 SOL, which also opens the token accounts of merchants who have none.\n"
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
