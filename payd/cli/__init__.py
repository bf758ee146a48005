"""The command line: one file a command, and this table of them."""

from __future__ import annotations

import difflib
import gc
import importlib
import textwrap
from functools import partial
from typing import Any, Final, NoReturn

import click

from payd import __version__
from payd.cli.exit_codes import EXIT_CODES
from payd.cli.leaving import leave, print_anywhere, unread, wants_colour
from payd.cli.sections import Sections

SECTIONS: Final = {
    "Start": ("serve", "demo", "init"),
    "Your shop": ("account", "user", "key", "app", "merchant", "payment"),
    "Webhooks and events": ("webhook", "listen", "events", "logs", "notify"),
    "Test mode": ("trigger", "sim", "clock", "fixtures"),
    "Operations": ("doctor", "check-config", "service", "backup", "restore", "migrate", "relayer"),
    "About payd": ("version", "help", "completion"),
}
"""In the order in which a newcomer needs them."""

COMMANDS: Final = tuple(name for names in SECTIONS.values() for name in names)
"""Each is a file of this folder."""

# So many are made before what nothing holds is looked for.
NEW_OBJECTS: Final = 20_000

EPILOG: Final = """\b
First payment:
  payd demo          the whole job, from a created payment to its webhook
  payd serve --demo  a server with an account, a key and a shop to play with

\b
Your own shop, in test mode:
  payd init                                     the same, without a server
  payd key create --mode test                   another key; it is shown once
  payd merchant create NAME --email ADDRESS
  payd listen --forward-to localhost:4242/hook  while you write your receiver
  payd webhook set --mode test --url https://shop.example/hook
  payd trigger payment.succeeded                a payment that ends so
  payd events tail                              what is told, as it happens

\b
Exit codes:
  {exit_codes}

Commands act through the running server of the data directory; when none runs, they open the store themselves.
Each has --help with examples, and --json where it prints data.
"""


class _Commands(Sections):
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

        with unread(), told():
            return super().invoke(ctx)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click's; --help prints here."""
        with unread():
            return super().make_context(*args, **kwargs)

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        """As click's, but that it leaves as payd's table of exit codes says."""
        run = partial(super().main, *args, standalone_mode=False, **kwargs)
        if not standalone_mode:
            return run()
        leave(run)


def _wrapped(code: int, meaning: str) -> str:
    return textwrap.fill(f"{code:>3}  {meaning}", 74, subsequent_indent=" " * 7)


@click.command(
    cls=_Commands,
    sections=SECTIONS,
    epilog=EPILOG.format(exit_codes="\n  ".join(_wrapped(*each) for each in EXIT_CODES.items())),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="payd", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Take crypto payments with one process: create a payment, let a wallet pay it, get a signed webhook.

    Test mode simulates the chain, so that everything can be tried without funds.
    """
    if not wants_colour():
        ctx.color = False


def main() -> NoReturn:
    """`payd` and `python -m payd`."""
    # Imports make much and drop little: to look through it again and again takes a twentieth of a start.
    gc.set_threshold(NEW_OBJECTS)
    print_anywhere()
    cli(prog_name="payd")
    raise AssertionError("it leaves with an exit code")
