"""`payd user`: who signs in to the dashboard, and a way in for those who are locked out."""

from __future__ import annotations

from typing import Final

import click

from payd.cli.options import Operator, operates
from payd.cli.sections import Sections
from payd.cli.show import show_fields, show_rows
from payd.cli.teaching import teach
from payd.core.roles import Role

ROLES: Final = tuple(role.value for role in reversed(Role))

account_option = click.option("--account", metavar="NAME|ID", help="Which. Needed when there are several.")


@click.group(
    cls=Sections,
    epilog=teach("""
payd user setup-link
payd user invite --role support --email grace@example.com
payd user list
"""),
)
def user() -> None:
    """Show and remove users of the dashboard, and make links that let one in once."""


@user.command(
    "list",
    epilog=teach("""
payd user list
payd user list --json
"""),
)
@operates
def list_all(operator: Operator) -> None:
    """Show all users, with their part in each account."""
    users = operator.ask("user.list")
    if operator.printed_json(users):
        return
    rows = [
        one
        | {
            "accounts": ", ".join(f"{role} of {name}" for name, role in one["accounts"].items()),
            "secondFactor": "yes" if one["secondFactor"] else "no",
        }
        for one in users
    ]
    columns = {
        "email": "E-mail",
        "accounts": "Roles",
        "secondFactor": "Second factor",
        "createdAt": "Created",
    }
    make = operator.pasted("user setup-link")
    show_rows(rows, columns, f"There is no user yet. Make a link for the first: {make}")


@user.command(
    "setup-link",
    epilog=teach(
        """
payd user setup-link
""",
        then="open it in a browser",
    ),
)
@operates
def setup_link(operator: Operator) -> None:
    """Make the link by which the first user is made; the one before opens nothing any more."""
    _show_link(operator, operator.ask("user.setup_link"))


@user.command(
    "invite",
    epilog=teach(
        """
payd user invite --role support --email grace@example.com
payd user invite --account main --json
""",
        then="send it to whom it is for",
    ),
)
@click.option(
    "--role", type=click.Choice(ROLES), default="developer", show_default=True, help="What they may do."
)
@click.option("--email", metavar="ADDRESS", help="Who it is for. Left out: whoever has the link.")
@account_option
@operates
def invite(operator: Operator, role: str, email: str | None) -> None:
    """Make a link by which one more user comes into an account; payd sends no e-mail."""
    _show_link(operator, operator.ask("user.invite", role=role, email=email))


@user.command(
    "reset",
    epilog=teach("""
payd user reset grace@example.com
"""),
)
@click.argument("email", metavar="EMAIL")
@operates
def reset(operator: Operator, email: str) -> None:
    """Make a link for a new password; it also ends the user's sessions and second factors."""
    _show_link(operator, operator.ask("user.reset", email=email))


@user.command(
    "remove",
    epilog=teach("""
payd user remove grace@example.com --account main
"""),
)
@click.argument("email", metavar="EMAIL")
@account_option
@operates
def remove(operator: Operator, email: str) -> None:
    """Take a user out of an account, and end their sessions in it."""
    gone = operator.ask("user.remove", email=email)
    if operator.printed_json(gone):
        return
    show_fields({"Removed": gone["email"], "From": gone["account"]})


def _show_link(operator: Operator, made: dict[str, str]) -> None:
    if operator.printed_json(made):
        return
    show_fields({"Link, opens once": made["url"], "Until": made["expiresAt"]})
