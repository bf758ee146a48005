"""What happened and when, told as it happens: the timeline of `payd demo`."""

from __future__ import annotations

from typing import Any

import click
import trio


class Timeline:
    """Starts now.

    Args:
        quiet: Keep it, and print nothing.

    Attributes:
        entries: `{afterMs, who, what}`, oldest first.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._started_s = trio.current_time()
        self.entries: list[dict[str, Any]] = []

    def add(self, who: str, text: str, **style: Any) -> None:
        """Add what `who` just saw or did."""
        after_ms = round((trio.current_time() - self._started_s) * 1000)
        self.entries.append({"afterMs": after_ms, "who": who, "what": text})
        if not self._quiet:
            click.echo(
                f"{after_ms:>6} ms  {click.style(who.ljust(8), bold=True)}  {click.style(text, **style)}"
            )
