"""`payd account`: who owns merchants, keys and endpoints."""

from __future__ import annotations

import shlex
from typing import Any

import click

from payd.cli.options import Operator, operates
from payd.cli.sections import Sections
from payd.cli.show import show_fields, show_rows
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
    _show(operator, made)
    if not operator.as_json:
        key = operator.pasted(f"key create --mode test --account {shlex.quote(made['name'])}")
        click.echo(f"Next: {key}")


@account.command(
    "rename",
    epilog=teach("""
payd account rename main "My shop"
"""),
)
@click.argument("account_name", metavar="ACCOUNT")
@click.argument("name")
@operates
def rename(operator: Operator, account_name: str, name: str) -> None:
    """Give an account another name. ACCOUNT is its name or id; ids, keys and links stay as they are."""
    _show(operator, operator.ask("account.rename", account=account_name, name=name))


@account.command(
    "set-version",
    epilog=teach("""
payd account set-version main 2026-02-19.preview
"""),
)
@click.argument("account_name", metavar="ACCOUNT")
@click.argument("version")
@operates
def set_version(operator: Operator, account_name: str, version: str) -> None:
    """Answer an account's requests in a newer VERSION of the API from now on. There is no way back."""
    _show(operator, operator.ask("account.version", account=account_name, version=version))


def _show(operator: Operator, account: dict[str, Any]) -> None:
    if operator.printed_json(account):
        return
    show_fields({"Account": account["name"], "Id": account["id"], "API version": account["apiVersion"]})


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
    if operator.printed_json(accounts):
        return
    columns = {"name": "Name", "id": "Id", "apiVersion": "API version", "createdAt": "Created"}
    make = operator.pasted("account create NAME")
    show_rows(accounts, columns, f"There is no account yet. Make one: {make}")
