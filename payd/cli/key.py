"""`payd key`: the API keys of a merchant's backend."""

from __future__ import annotations

from typing import Any

import click

from payd.cli.options import Operator, on_realm
from payd.cli.sections import Sections
from payd.cli.show import show_fields, show_rows
from payd.cli.shown_once import shown_or_revoked
from payd.cli.teaching import teach
from payd.store.keys import DEFAULT_SCOPES, SCOPES


@click.group(
    cls=Sections,
    epilog=teach("""
payd key create --mode test
payd key list --mode live
payd key revoke key_…
"""),
)
def key() -> None:
    """Make, show and revoke API keys.

    The key selects the mode: svc_test_… is test, svc_… is live.
    """


@key.command(
    "create",
    epilog=teach(
        """
payd key create --mode test
payd key create --mode live --name shop --scope payments:write
payd key create --merchant mrch_… --json  for one merchant alone
""",
        notes=f"Scopes: {', '.join(SCOPES)}.",
    ),
)
@click.option("--name", default="unnamed", show_default=True, help="For you, to recognise it later.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help="What it may do; repeat for several. Without: everything in test mode, in live mode "
    + ", ".join(DEFAULT_SCOPES["live"])
    + ".",
)
@click.option("--merchant", "merchants", multiple=True, metavar="ID", help="Limit it to merchants; repeat.")
@on_realm
def create(operator: Operator, name: str, scopes: tuple[str, ...], merchants: tuple[str, ...]) -> None:
    """Make a key. It is shown once and cannot be shown again; where it cannot be shown, it is revoked."""
    made = operator.ask("key.create", name=name, scopes=scopes or None, merchants=merchants or None)
    with shown_or_revoked(operator, made["id"]):
        if operator.printed_json(made):
            return
        show_fields({"API key": made["apiKey"], **_fields(made)})
    click.echo("Keep it now: it is not stored and cannot be shown again.")


@key.command(
    "list",
    epilog=teach("""
payd key list
payd key list --mode live --all --json
"""),
)
@click.option("--all", "with_revoked", is_flag=True, help="Revoked ones, too.")
@on_realm
def list_all(operator: Operator, with_revoked: bool) -> None:
    """Show the keys that are not revoked; never the keys themselves."""
    keys = [one for one in operator.ask("key.list") if with_revoked or one["revokedAt"] is None]
    if operator.printed_json(keys):
        return
    rows = [
        {
            **each,
            "shown": f"{each['prefix']}…{each['last4']}",
            "scopes": _scopes(each),
            "merchants": each["merchants"] or "all",
        }
        for each in keys
    ]
    columns = {
        "name": "Name",
        "shown": "Key",
        "id": "Id",
        "createdAt": "Created",
        "revokedAt": "Revoked",
        "scopes": "Scopes",
        "merchants": "Merchants",
    }
    make = operator.pasted("key create")
    show_rows(rows, columns, f"There is no key. Make one: {make}")


@key.command(
    "revoke",
    epilog=teach(
        """
payd key revoke key_…
""",
        then="payd key create, if it was replaced",
    ),
)
@click.argument("key_id", metavar="ID")
@on_realm
def revoke(operator: Operator, key_id: str) -> None:
    """Make a key open nothing, at once and for good."""
    revoked = operator.ask("key.revoke", id=key_id)
    if operator.printed_json(revoked):
        return
    show_fields(_fields(revoked))


def _scopes(made: dict[str, Any]) -> Any:
    return "all" if len(made["scopes"]) == len(SCOPES) else made["scopes"]


def _fields(made: dict[str, Any]) -> dict[str, Any]:
    return {
        "Id": made["id"],
        "Name": made["name"],
        "Mode": made["mode"],
        "Scopes": _scopes(made),
        "Merchants": made.get("merchants"),
        "Revoked": made.get("revokedAt"),
    }
