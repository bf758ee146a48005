"""`payd account`: who owns merchants, keys and endpoints."""

from __future__ import annotations

import click

from payd.cli.options import Operator, operates
from payd.cli.pasted import pasted
from payd.cli.sections import Sections
from payd.cli.show import show_fields, show_json, show_rows
from payd.cli.teaching import teach


@click.group(
    cls=Sections,
    epilog=teach("""
payd account create main
payd account list
"""),
)
def account() -> None:
    """Make and show accounts, which own merchants, keys and endpoints."""


@account.command(
    "create",
    epilog=teach(
        """
payd account create main
payd account create "Second shop" --json
""",
        then="payd key create --mode test",
    ),
)
@click.argument("name")
@operates
def create(operator: Operator, name: str) -> None:
    """Make an account. One is enough for most; several keep their data apart."""
    made = operator.ask("account.create", name=name)
    if operator.as_json:
        show_json(made)
        return
    show_fields({"Account": made["name"], "Id": made["id"], "API version": made["apiVersion"]})
    click.echo(f"Next: {pasted('key create --mode test')}")


@account.command(
    "list",
    epilog=teach("""
payd account list
payd account list --json
"""),
)
@operates
def list_all(operator: Operator) -> None:
    """Show all accounts."""
    accounts = operator.ask("account.list")
    if operator.as_json:
        show_json(accounts)
        return
    columns = {"name": "Name", "id": "Id", "apiVersion": "API version", "createdAt": "Created"}
    show_rows(accounts, columns, f"There is no account yet. Make one: {pasted('account create NAME')}")
