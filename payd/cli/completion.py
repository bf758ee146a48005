"""`payd completion`: what a shell needs to complete commands, options and their values by itself."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from payd.cli.teaching import teach

SHELLS: Final = ("bash", "zsh", "fish")
PROGRAM: Final = "payd"
VARIABLE: Final = "_PAYD_COMPLETE"


@click.command(
    epilog=teach(
        """
payd completion bash >~/.local/share/bash-completion/completions/payd
payd completion zsh >~/.zfunc/_payd  with fpath+=~/.zfunc in .zshrc
payd completion fish >~/.config/fish/completions/payd.fish
""",
        notes='The folder has to be there. For this shell only: eval "$(payd completion bash)".',
    )
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes payd in a shell.

    It asks payd itself, so that it never grows old.
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
