"""`payd merchant`: who receives payments, and at which addresses."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import click

from payd.cli.options import Operator, on_realm
from payd.cli.sections import Sections
from payd.cli.show import show_fields, show_rows
from payd.cli.teaching import teach
from payd.core.picture import BYTES_MAX, kind_of


@click.group(
    cls=Sections,
    epilog=teach(
        """
payd merchant create "My Shop" --email shop@example.com
payd merchant list
""",
        then="payd merchant add-destination --help",
    ),
)
def merchant() -> None:
    """Make and show merchants, and where they are paid."""


@merchant.command(
    "create",
    epilog=teach(
        """
payd merchant create "My Shop" --email shop@example.com
payd merchant create "My Shop" --email shop@example.com --mode live
""",
        then="payd merchant add-destination --help",
    ),
)
@click.argument("name")
@click.option("--email", required=True, help="Where the merchant is reached.")
@on_realm
def create(operator: Operator, name: str, email: str) -> None:
    """Make a merchant. Its id goes into the Merchant-Id header."""
    made = operator.ask("merchant.create", name=name, email=email)
    if operator.printed_json(made):
        return
    show_fields({"Merchant": made["name"], "Id": made["id"], "Status": made["status"]})
    click.echo("Next: " + operator.pasted(f"merchant add-destination {made['id']} ASSET ADDRESS"))


@merchant.command(
    "list",
    epilog=teach("""
payd merchant list --mode live
payd merchant list --json
"""),
)
@on_realm
def list_all(operator: Operator) -> None:
    """Show the merchants."""
    merchants = operator.ask("merchant.list")
    if operator.printed_json(merchants):
        return
    columns = {"name": "Name", "id": "Id", "email": "Email", "status": "Status"}
    columns |= {"createdAt": "Created", "logo": "Logo"}
    merchants = [{**one, "logo": _in_words(one["logo"])} for one in merchants]
    make = operator.pasted("merchant create NAME --email ADDRESS")
    show_rows(merchants, columns, f"There is no merchant. Make one: {make}")


@merchant.command(
    "add-destination",
    epilog=teach(
        """
payd merchant add-destination mrch_… eip155:8453/slip44:60 eip155:8453:0x…
payd merchant add-destination mrch_… \\
  eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913 \\
  eip155:8453:0x…
payd merchant add-destination mrch_… \\
  solana:mainnet/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v \\
  solana:mainnet:…
""",
        notes="These are ETH and USDC on Base, and USDC on Solana, where your wallet is named and no token"
        " account of it.",
    ),
)
@click.argument("merchant_id", metavar="MERCHANT")
@click.argument("asset")
@click.argument("destination")
@on_realm
def add_destination(operator: Operator, merchant_id: str, asset: str, destination: str) -> None:
    """Say where an asset goes: ASSET is a CAIP-19 id, DESTINATION a CAIP-10 account on the same chain."""
    made = operator.ask("destination.add", merchant=merchant_id, asset=asset, destination=destination)
    if operator.printed_json(made):
        return
    _show_destination(made)


@merchant.command(
    "collect",
    epilog=teach(
        """
payd merchant collect mrch_… "fullName:text:Full name" "note?:text:Note"
payd merchant collect mrch_… "tosConfirmed:checkbox:I agree to the terms"
payd merchant collect mrch_… --none
""",
        notes="A FIELD is ID:TYPE:NAME. TYPE is text, date or checkbox; NAME is what buyers read; a question"
        " mark after the id lets them leave it out.",
    ),
)
@click.argument("merchant_id", metavar="MERCHANT")
@click.argument("fields", metavar="[FIELD]...", nargs=-1)
@click.option("--none", "nothing", is_flag=True, help="Ask for nothing any more.")
@on_realm
def collect(operator: Operator, merchant_id: str, fields: tuple[str, ...], nothing: bool) -> None:
    """Say what the merchant's buyers are asked before they pay; without FIELD, show it."""
    if fields and nothing:
        raise click.UsageError("FIELD and --none say different things.")
    wanted = [_field(text) for text in fields] if fields or nothing else None
    asked = operator.ask("merchant.collect", merchant=merchant_id, fields=wanted)
    if operator.printed_json(asked):
        return
    rows = [{**field, "needed": "required" if field["required"] else "optional"} for field in asked]
    columns = {"name": "Asks for", "id": "Id", "type": "Type", "needed": "Needed"}
    show_rows(rows, columns, "Its buyers are asked for nothing.")


def _field(text: str) -> dict[str, Any]:
    parts = text.split(":", 2)
    if len(parts) < 3:
        raise click.UsageError(f"{text} is no FIELD: write ID:TYPE:NAME, such as dob:date:Birthday.")
    field_id, kind, name = parts
    return {
        "id": field_id.removesuffix("?"),
        "type": kind,
        "name": name,
        "required": not field_id.endswith("?"),
    }


@merchant.command(
    "destinations",
    epilog=teach("""
payd merchant destinations mrch_…
"""),
)
@click.argument("merchant_id", metavar="MERCHANT")
@on_realm
def destinations(operator: Operator, merchant_id: str) -> None:
    """Show where a merchant's assets go."""
    found = operator.ask("destination.list", merchant=merchant_id)
    if operator.printed_json(found):
        return
    columns = {"asset": "Asset", "destination": "Destination", "id": "Id"}
    if any("pending" in one for one in found):
        columns |= {"next": "Changes to", "at": "On"}
        waiting = [one.get("pending", {}) for one in found]
        found = [
            {**one, "next": change.get("destination"), "at": change.get("appliesAt")}
            for one, change in zip(found, waiting, strict=True)
        ]
    add = operator.pasted("merchant add-destination MERCHANT ASSET ADDRESS")
    show_rows(found, columns, f"There is none. Add one: {add}")


@merchant.command(
    "change-destination",
    epilog=teach(
        """
payd merchant change-destination mrch_… crypto_… eip155:8453:0x…
""",
        then="payd merchant destinations MERCHANT",
    ),
)
@click.argument("merchant_id", metavar="MERCHANT")
@click.argument("settlement_id", metavar="DESTINATION")
@click.argument("address")
@on_realm
def change_destination(operator: Operator, merchant_id: str, settlement_id: str, address: str) -> None:
    """Send an asset elsewhere. DESTINATION is the id that `merchant destinations` shows.

    ADDRESS is a CAIP-10 account. In live mode [settlements] change_delay_s holds the change back; until then
    `merchant cancel-change` takes it back.
    """
    changed = operator.ask("destination.change", merchant=merchant_id, id=settlement_id, destination=address)
    if operator.printed_json(changed):
        return
    _show_destination(changed)
    if "pending" in changed:
        click.echo(
            "To take it back: " + operator.pasted(f"merchant cancel-change {merchant_id} {settlement_id}")
        )


@merchant.command(
    "cancel-change",
    epilog=teach("""
payd merchant cancel-change mrch_… crypto_… --mode live
"""),
)
@click.argument("merchant_id", metavar="MERCHANT")
@click.argument("settlement_id", metavar="DESTINATION")
@on_realm
def cancel_change(operator: Operator, merchant_id: str, settlement_id: str) -> None:
    """Take back a change of a destination that is held back."""
    kept = operator.ask("destination.cancel", merchant=merchant_id, id=settlement_id)
    if operator.printed_json(kept):
        return
    _show_destination(kept)


@merchant.command(
    "delete-destination",
    epilog=teach("""
payd merchant delete-destination mrch_… crypto_…
"""),
)
@click.argument("merchant_id", metavar="MERCHANT")
@click.argument("settlement_id", metavar="DESTINATION")
@on_realm
def delete_destination(operator: Operator, merchant_id: str, settlement_id: str) -> None:
    """Take an asset no more, from now on."""
    gone = operator.ask("destination.delete", merchant=merchant_id, id=settlement_id)
    if operator.printed_json(gone):
        return
    click.echo(f"{gone['id']} is deleted. Buyers are not offered its asset any more.")


def _show_destination(one: dict[str, Any]) -> None:
    fields = {"Settlement": one["id"], "Asset": one["asset"], "Destination": one["destination"]}
    if "pending" in one:
        fields |= {"Changes to": one["pending"]["destination"], "On": one["pending"]["appliesAt"]}
    show_fields(fields)


@merchant.command(
    "origins",
    epilog=teach("""
payd merchant origins mrch_…                       show them
payd merchant origins mrch_… https://shop.example
payd merchant origins mrch_… --none
"""),
)
@click.argument("merchant_id", metavar="MERCHANT")
@click.argument("origins", metavar="[ORIGIN]...", nargs=-1)
@click.option("--none", is_flag=True, help="Nobody's.")
@on_realm
def origins(operator: Operator, merchant_id: str, origins: tuple[str, ...], none: bool) -> None:
    """Show whose pages may show the checkout in a frame, or say so: these ORIGINs and no others.

    An ORIGIN is what a browser calls it, such as https://shop.example.
    """
    if none and origins:
        raise click.UsageError("Name origins, or say --none.")
    wanted = list(origins) if origins or none else None
    allowed = operator.ask("merchant.origins", merchant=merchant_id, origins=wanted)
    if operator.printed_json(allowed):
        return
    click.echo("Allowed: " + (", ".join(allowed) or "no page; the checkout opens in a tab of its own"))


@merchant.command(
    "logo",
    epilog=teach("""
payd merchant logo mrch_… logo.png
payd merchant logo mrch_… --remove
"""),
)
@click.argument("merchant_id", metavar="MERCHANT")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--remove", is_flag=True, help="Show none any more.")
@on_realm
def logo(operator: Operator, merchant_id: str, file: Path | None, remove: bool) -> None:
    """Show the merchant's logo to its buyers: the picture in FILE; without FILE, say what is shown.

    FILE is a PNG, JPEG, WebP or AVIF of at most 2 MiB. Square is best; what is not is shown whole.
    """
    if file is not None and remove:
        raise click.UsageError("FILE and --remove say different things.")
    picture = None if file is None else _read(file)
    shown = operator.ask("merchant.logo", merchant=merchant_id, picture=picture, remove=remove)
    if operator.printed_json(shown):
        return
    click.echo(f"Logo: {_in_words(shown)}" if shown else "None; its buyers see the first letter of its name.")
    if shown and shown["url"]:
        click.echo(shown["url"])


def _read(file: Path) -> str:
    """A picture as commands carry it. Raises PaydError when it is none that is taken."""
    with file.open("rb") as opened:
        data = opened.read(BYTES_MAX + 1)
    kind_of(data)
    return base64.b64encode(data).decode("ascii")


def _in_words(logo: dict[str, Any] | None) -> str | None:
    """What became of a logo, on a line."""
    if logo is None:
        return None
    return str(logo["state"]) if logo["problem"] is None else f"{logo['state']}: {logo['problem']}"
