"""`payd app`: the public ids by which wallets say who they are."""

from __future__ import annotations

import click

from payd.cli.options import Operator, on_realm
from payd.cli.sections import Sections
from payd.cli.show import show_fields, show_rows
from payd.cli.teaching import teach


@click.group(
    cls=Sections,
    epilog=teach("""
payd app create --name "My wallet" --mode test
payd app list
"""),
)
def app() -> None:
    """Make, show and revoke app ids for wallets.

    They are public: sent as App-Id, with any Client-Id, on gateway paths.
    """


@app.command(
    "create",
    epilog=teach(
        """
payd app create --name "My wallet" --mode test
payd app create --mode live --json
""",
        then="send it as App-Id, with any Client-Id, on gateway paths",
    ),
)
@click.option("--name", default="Wallet", show_default=True, help="For you, to recognise it later.")
@on_realm
def create(operator: Operator, name: str) -> None:
    """Make an app id."""
    made = operator.ask("app.create", name=name)
    if operator.printed_json(made):
        return
    show_fields({"App id": made["appId"], "Name": made["name"], "Mode": made["mode"]})


@app.command(
    "list",
    epilog=teach("""
payd app list --mode live
"""),
)
@on_realm
def list_all(operator: Operator) -> None:
    """Show the app ids, revoked ones too."""
    apps = operator.ask("app.list")
    if operator.printed_json(apps):
        return
    columns = {"name": "Name", "appId": "App id", "createdAt": "Created", "revokedAt": "Revoked"}
    make = operator.pasted("app create")
    show_rows(apps, columns, f"There is no app. Make one: {make}")


@app.command(
    "revoke",
    epilog=teach("""
payd app revoke app_…
"""),
)
@click.argument("app_id", metavar="ID")
@on_realm
def revoke(operator: Operator, app_id: str) -> None:
    """Make an app id identify nobody, at once and for good."""
    revoked = operator.ask("app.revoke", id=app_id)
    if operator.printed_json(revoked):
        return
    show_fields({"App id": revoked["appId"], "Name": revoked["name"], "Revoked": revoked["revokedAt"]})
