"""`payd webhook recover`, `replay-missing` and their jobs: many deliveries at once, after an outage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import click
import trio
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from payd.cli.failure import Refused
from payd.cli.options import Operator, on_realm
from payd.cli.show import Row, console, moment, show_fields, show_json, show_rows
from payd.cli.teaching import teach

Job: TypeAlias = dict[str, Any]

# How often a job is looked at while somebody waits for it.
POLL_S: Final = 0.5

FOUND: Final = {
    "recover": ("delivery failed", "deliveries failed"),
    "replay-missing": ("event was missed", "events were missed"),
}
"""What a job looks for, one and several."""


def _replays(function: Callable[..., None]) -> Callable[..., None]:
    since = click.option(
        "--since",
        required=True,
        metavar="TIME",
        help="2h, 3d, RFC 3339 or Unix seconds; at most 14 days back.",
    )
    preview = click.option("--preview", is_flag=True, help="Only count; send nothing.")
    wait = click.option("--wait", is_flag=True, help="Show progress until all is sent.")
    return since(preview(wait(on_realm(function))))


@click.command(
    "recover",
    epilog=teach(
        """
payd webhook recover --since 2h --preview  count first
payd webhook recover --since 2h --wait
payd webhook recover --since 2026-11-20T00:00:00Z --mode live
""",
        codes="with --wait, not all of it was delivered",
        then="payd webhook jobs",
    ),
)
@_replays
def recover(operator: Operator, since: str, preview: bool, wait: bool) -> None:
    """Send again what failed for good since a time.

    The server does it in the background, behind what is fresh, and goes on after a restart.
    """
    _replay(operator, "recover", since, preview=preview, wait=wait)


@click.command(
    "replay-missing",
    epilog=teach(
        """
payd webhook replay-missing --since 3d --preview  count first
payd webhook replay-missing --since 3d --wait
""",
        codes="with --wait, not all of it was delivered",
        then="payd webhook jobs",
    ),
)
@_replays
def replay_missing(operator: Operator, since: str, preview: bool, wait: bool) -> None:
    """Send what the endpoint was never told of since a time.

    That is what happened while it was disabled, before it was set, or when it did not want the type.
    """
    _replay(operator, "replay-missing", since, preview=preview, wait=wait)


@click.command(
    "jobs",
    epilog=teach("""
payd webhook jobs
payd webhook jobs --mode live --json
"""),
)
@on_realm
def jobs(operator: Operator) -> None:
    """Show the jobs of recover and replay-missing, newest first."""
    found = operator.ask("webhook.jobs")
    if operator.printed_json(found):
        return
    columns = {
        "id": "Job",
        "kind": "Kind",
        "from": "Since (UTC)",
        "state": "State",
        "matched": "Found",
        "queued": "Queued",
        "done": "Delivered",
        "failed": "Failed",
        "takenBack": "Taken back",
    }
    rows = [{**each, "from": moment(each["since"])} for each in found]
    show_rows(
        rows, columns, f"There is no job. Begin with: {operator.pasted('webhook recover --since 2h')}", _brief
    )


@click.command(
    "job",
    epilog=teach("""
payd webhook job job_…
"""),
)
@click.argument("job_id", metavar="ID")
@on_realm
def job(operator: Operator, job_id: str) -> None:
    """Show how far a job of recover or replay-missing is."""
    _show(operator, operator.ask("webhook.job", id=job_id))


@click.command(
    "cancel-job",
    epilog=teach("""
payd webhook cancel-job job_…
"""),
)
@click.argument("job_id", metavar="ID")
@on_realm
def cancel_job(operator: Operator, job_id: str) -> None:
    """Stop a job of recover or replay-missing.

    It queues nothing more, and what it queued and was not sent yet is taken back: a later job finds it again.
    """
    _show(operator, operator.ask("webhook.cancel-job", id=job_id))


def _brief(row: Row) -> str:
    return (
        f"{click.style(row['id'], bold=True)}  {row['state']}\n"
        f"  {row['kind']} since {row['from']}: {row['matched']} found, {row['done']} delivered,"
        f" {row['failed']} failed{_taken_back(row)}"
    )


def _taken_back(row: Row) -> str:
    return f", {row['takenBack']} taken back" if row["takenBack"] else ""


def _replay(operator: Operator, kind: str, since: str, *, preview: bool, wait: bool) -> None:
    started = operator.ask(f"webhook.{kind}", since=since, preview=preview or None)
    if preview:
        _show_preview(operator, started, f"webhook {kind} --since {started['since']}")
    elif wait:
        _end(operator, _wait(operator, started))
    else:
        _show(operator, started)
        if not operator.as_json:
            look = operator.pasted(f"webhook job {started['id']}")
            click.echo(f"\nIt runs in the server. Look: {look}")


def _show_preview(operator: Operator, found: Job, command: str) -> None:
    if operator.printed_json(found):
        return
    matched, (one, several) = found["matched"], FOUND[found["kind"]]
    words = f"{matched or 'No'} {one if matched in (0, 1) else several} since {moment(found['since'])} UTC."
    click.echo(f"{words} Send: {operator.pasted(command)}" if matched else words)


def _wait(operator: Operator, running: Job) -> Job:
    """Look at a job until it ends; whoever interrupts this leaves it running."""
    try:
        with _told(operator, running) as tell:
            while running["state"] == "running":
                trio.run(trio.sleep, POLL_S)
                running = operator.ask("webhook.watch", id=running["id"])
                tell(running)
    except (KeyboardInterrupt, click.Abort):
        look = operator.pasted(f"webhook job {running['id']}")
        click.echo(f"\nThe job goes on in the server. Look: {look}", err=True)
        raise click.Abort from None
    return running


@contextmanager
def _told(operator: Operator, started: Job) -> Iterator[Callable[[Job], None]]:
    """Somebody to tell of progress: a bar on a terminal, else a line when it begins and one when it waits."""
    screen = console()
    if operator.as_json:
        yield lambda _: None
        return
    if not screen.is_terminal:
        click.echo(f"Job {started['id']} runs.")
        yield _teller()
        return
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task(_words(started), total=None)

        def tell(seen: Job) -> None:
            ended = seen["matched"] - _left(seen)
            progress.update(task, description=_words(seen), total=seen["matched"] or None, completed=ended)

        yield tell


def _teller() -> Callable[[Job], None]:
    """Says once that nothing moves for a while, where there is no bar to look at."""
    was_told = False

    def tell(seen: Job) -> None:
        nonlocal was_told
        if _only_retries(seen) and not was_told:
            was_told = True
            click.echo(_words(seen))

    return tell


def _words(seen: Job) -> str:
    refused = seen["retrying"]
    if _only_retries(seen):
        tried = "was refused and is" if refused == 1 else "were refused and are"
        counts = f"{seen['done']} of {seen['matched']} delivered; {refused} {tried} tried again"
        return f"{counts}; Ctrl-C leaves the job running."
    again = f", {refused} of them for another try" if refused else ""
    return f"{seen['done']} delivered, {seen['failed']} failed, {_left(seen)} to go{again}"


def _left(seen: Job) -> int:
    """How many of what was found have not ended yet."""
    ended: int = seen["done"] + seen["failed"] + seen["takenBack"]
    return max(0, int(seen["matched"]) - ended)


def _only_retries(seen: Job) -> bool:
    """Whether all that is left was refused, so that minutes or hours may go by without a change."""
    return bool(seen["retrying"]) and seen["retrying"] == _left(seen)


def _end(operator: Operator, ended: Job) -> None:
    """Say how a job ended; only one that delivered everything is a success."""
    if operator.as_json:
        show_json(ended)
    counts = f"{ended['done']} of {ended['matched']} delivered"
    if ended["state"] != "done":
        raise Refused(f"The job was cancelled: {counts}, {ended['failed']} failed{_taken_back(ended)}.")
    if ended["failed"]:
        look = operator.pasted("webhook deliveries --state failed")
        raise Refused(f"Done, but not all of it: {counts}, {ended['failed']} failed. Look: {look}")
    if operator.as_json:
        return
    none = f"Nothing to send: no {FOUND[ended['kind']][0]} since {moment(ended['since'])} UTC."
    click.echo(f"Done: {counts}." if ended["matched"] else none)


def _show(operator: Operator, found: Job) -> None:
    if operator.printed_json(found):
        return
    show_fields(
        {
            "Job": found["id"],
            "Kind": found["kind"],
            "Since": f"{moment(found['since'])} UTC",
            "State": found["state"],
            "Found": found["matched"],
            "Queued": found["queued"],
            "Delivered": found["done"],
            "Failed": found["failed"],
            "Refused so far": f"{found['retrying']}, tried again" if found["retrying"] else None,
            "Taken back": _back(found) if found["state"] == "cancelled" else None,
        }
    )


def _back(cancelled: Job) -> str:
    """What a cancelled job took back; the server does it in small steps."""
    left = _left(cancelled)
    return f"{cancelled['takenBack']}, and {left} more are under way" if left else str(cancelled["takenBack"])
