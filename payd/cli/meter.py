"""How far long work is: a bar on a terminal's standard error, and nothing where no person looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from payd.store.copying import Look, look_away


@contextmanager
def meter() -> Iterator[Look]:
    """Something to tell of progress: what is done with which file, how far, of how much (0: nobody knows)."""
    screen = Console(stderr=True, highlight=False)
    if not screen.is_terminal:
        yield look_away
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task("", total=None)

        def look(what: str, file: str, done: int, total: int) -> None:
            progress.update(task, description=f"{what} {file}", total=total or None, completed=done)

        yield look
