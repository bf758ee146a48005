"""`payd help`: what a command does, or what the exit codes mean."""

from __future__ import annotations

from typing import Final

import click

from payd.cli.exit_codes import EXIT_CODES
from payd.cli.show import show_json, show_rows
from payd.cli.teaching import teach

EXIT_CODES_TOPIC: Final = "exit-codes"


@click.command(
    "help",
    epilog=teach(
        """
payd help                  all commands
payd help webhook recover  as payd webhook recover --help
payd help exit-codes       what a script can tell from $?
"""
    ),
)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs: of exit-codes.")
@click.pass_context
def help(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Show the help of a command, or what the exit codes mean."""
    if words == (EXIT_CODES_TOPIC,):
        _show_exit_codes(as_json)
        return
    if as_json:
        raise click.UsageError(f"--json is for payd help {EXIT_CODES_TOPIC}.")
    assert ctx.parent is not None
    at: click.Context = ctx.parent
    for word in words:
        if not isinstance(at.command, click.Group):
            raise click.UsageError(f"{at.command_path} has no command {word!r}.")
        name, command, _ = at.command.resolve_command(at, [word])
        assert command is not None
        at = click.Context(command, info_name=name, parent=at)
    click.echo(at.get_help())


def _show_exit_codes(as_json: bool) -> None:
    if as_json:
        show_json({str(code): meaning for code, meaning in EXIT_CODES.items()})
        return
    rows = [{"code": code, "meaning": meaning} for code, meaning in EXIT_CODES.items()]
    show_rows(rows, {"code": "Code", "meaning": "Meaning"}, "")
