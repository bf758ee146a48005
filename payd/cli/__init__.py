"""The command line: one file a command, and this table of them."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, Final, NoReturn

import click

from payd import __version__

COMMANDS: Final = (
    "serve",
    "demo",
    "init",
    "account",
    "user",
    "key",
    "app",
    "merchant",
    "payment",
    "webhook",
    "listen",
    "notify",
    "relayer",
    "doctor",
    "check-config",
    "service",
    "version",
)
"""In the order in which a newcomer needs them; each is a file of this folder."""

EPILOG: Final = """\b
First payment:
  payd demo                      the whole job, from a created payment to a verified webhook
  payd serve --demo              a server with an account, a key and a shop to play with

\b
Your own shop, in test mode:
  payd init                      the same, without starting a server
  payd key create --mode test    another key; it is shown once
  payd merchant create NAME --email ADDRESS
  payd listen --forward-to localhost:4242/hook       while you write your receiver
  payd webhook set --mode test --url https://shop.example/hook

\b
Exit codes:
  0  done
  1  refused, or something is missing; the message says what to do
  2  wrong usage, or a mistake in payd.toml
  3  the server is needed and does not run, or its data directory is in use and nobody answers

Commands act through the running server of the data directory; when none runs, they open the store themselves.
"""


class _Commands(click.Group):
    """Imports a command's file when it is wanted: `payd serve` does not wait for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"payd.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # Here and not by click, which only knows commands that are imported.
        near = difflib.get_close_matches(args[0], COMMANDS, 1)
        if args[0] not in COMMANDS and near:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        from payd.cli.failure import told

        with told():
            return super().invoke(ctx)


@click.command(cls=_Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="payd", message="%(prog)s %(version)s")
def cli() -> None:
    """Take crypto payments with one process: create a payment, let a wallet pay it, get a signed webhook.

    Test mode simulates the chain, so that everything can be tried without funds.
    """


def main() -> NoReturn:
    """`payd` and `python -m payd`."""
    cli(prog_name="payd")
    raise AssertionError("click leaves with an exit code")
