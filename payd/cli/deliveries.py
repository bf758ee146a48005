"""`payd webhook deliveries`, `delivery` and `resend`: what was sent, how it went, and once more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

from payd.cli.as_commands import as_commands
from payd.cli.failure import Refused
from payd.cli.options import Operator, on_realm
from payd.cli.pasted import with_options
from payd.cli.show import Row, moment, show_fields, show_json, show_rows
from payd.cli.teaching import teach
from payd.core.advice import advice, words_for
from payd.core.endpoint import REPLAY_REACH_MS
from payd.core.retry import ATTEMPTS_MAX
from payd.core.text import on_one_line

STATES: Final = ("pending", "succeeded", "failed", "cancelled")
PAGE_MAX: Final = 100  # as the API has it
ANSWER_SHOWN_MAX: Final = 200  # characters: a sentence; a page of errors is in --json

REASONS: Final = {
    "endpoint_disabled": "its endpoint was disabled",
    "endpoint_deleted": "its endpoint was deleted",
    "job_cancelled": "taken back, because its job was cancelled",
}
"""Why a delivery ended that its receiver neither took nor refused to the end."""


@click.command(
    "deliveries",
    epilog=teach(
        """
payd webhook deliveries
payd webhook deliveries --state failed --mode live
payd webhook deliveries --payment pay_… --limit 20 --json
""",
        then="payd webhook delivery ID",
    ),
)
@click.option("--state", type=click.Choice(STATES), help="Only these.")
@click.option("--payment", metavar="ID", help="Only those of one payment.")
@click.option(
    "--limit",
    type=click.IntRange(1, PAGE_MAX),
    help="How many, the newest first. Without: a screen of them.",
)
@click.option("--cursor", metavar="CURSOR", help="Go on where the page before ended, which says how.")
@on_realm
def deliveries(
    operator: Operator, state: str | None, payment: str | None, limit: int | None, cursor: str | None
) -> None:
    """Show deliveries, newest first, and when they are tried again."""
    wanted = {"state": state, "payment": payment, "limit": limit}
    found = operator.ask("webhook.deliveries", **wanted, cursor=cursor)
    if operator.printed_json(found):
        return
    columns = {
        "at": "Time (UTC)",
        "eventType": "Event",
        "paymentId": "Payment",
        "state": "State",
        "attempts": "Attempts",
        "lastStatus": "Last status",
        "next": "Next attempt",
        "id": "Delivery",
    }
    rows = [{**each, "at": moment(each["createdAt"]), "next": _next(each)} for each in found["data"]]
    none = "There is none: an endpoint is told of what happens once it is set."
    show_rows(rows, columns, "There is none of these." if any((state, payment, cursor)) else none, _brief)
    if found["nextCursor"] is not None:
        typed = {**wanted, "cursor": found["nextCursor"]}
        more = operator.pasted(with_options("webhook deliveries", typed))
        click.echo(f"\nThere are more. --limit shows up to {PAGE_MAX} at once; the next: {more}")


@click.command(
    "delivery",
    epilog=teach(
        """
payd webhook delivery dlv_…
payd webhook delivery evt_… --json
""",
        then="payd webhook resend ID",
    ),
)
@click.argument("delivery_id", metavar="ID")
@on_realm
def delivery(operator: Operator, delivery_id: str) -> None:
    """Show one delivery with its attempts, and what to do.

    ID is its own (dlv_…), its webhook-id (msg_…), or its event's (evt_…).
    """
    found = operator.ask("webhook.delivery", id=delivery_id)
    if operator.printed_json(found):
        return
    _show(operator, found)


@click.command(
    "resend",
    epilog=teach(
        """
payd webhook resend dlv_…
""",
        codes="the endpoint did not take it",
    ),
)
@click.argument("delivery_id", metavar="ID")
@on_realm
def resend(operator: Operator, delivery_id: str) -> None:
    """Send a delivery once more, now.

    ID is its own (dlv_…), its webhook-id (msg_…), or its event's (evt_…). What is sent has the same bytes and
    webhook-id, and is signed afresh. A success ends the retries that were due; a failure leaves them as they
    were. Who runs `payd listen` gets it again as well, an event also where no endpoint can be sent it.
    """
    found = operator.ask("webhook.resend", id=delivery_id)
    if "listeners" in found:
        _show_told(operator, found)
        return
    last = found["attemptLog"][-1]
    if operator.as_json:
        show_json(found)
    if last["errorClass"] is not None:
        raise Refused(f"It was sent, but the endpoint {outcome(last)}")
    if not operator.as_json:
        click.echo(f"Delivered: the endpoint answered {last['status']} after {last['durationMs']} ms.")


def _show_told(operator: Operator, found: Row) -> None:
    """An event that went to listeners alone."""
    if operator.printed_json(found):
        return
    listeners = "1 listener" if found["listeners"] == 1 else f"{found['listeners']} listeners"
    why = as_commands(found["why"], operator.pasted, operator.pasted_here)
    click.echo(f"Told again to {listeners}, and sent to no endpoint: {why}")


def outcome(attempt: Row) -> str:
    """How an attempt failed and what to do, such as `answered 404. Is the URL right?`.

    Args:
        attempt: With `status` and `errorClass`.
    """
    status, error_class = attempt["status"], attempt["errorClass"]
    words = f"answered {status}." if status is not None else f"did not take it: {words_for(error_class)}."
    return " ".join(filter(None, (words, advice(status, error_class))))


def how(attempt: Row) -> str | None:
    """How an attempt ended, such as `answered 500`; None when there was none.

    Args:
        attempt: As of `outcome`; both may be missing.
    """
    status, error_class = attempt.get("status"), attempt.get("errorClass")
    if status is not None:
        return f"answered {status}"
    return None if error_class is None else words_for(error_class)


def failure(attempt: Row) -> str | None:
    """What went wrong, for a table that has the status beside it."""
    error_class = attempt["errorClass"]
    return None if error_class in (None, "http_status") else words_for(error_class)


def show_advice(attempts: Iterable[Row]) -> None:
    """Below a table: what to do about its failures, each kind once."""
    lines = {
        f"{attempt['status'] or _sentence(words_for(attempt['errorClass']))}: {words}": None
        for attempt in attempts
        if attempt.get("errorClass")
        and (words := advice(attempt["status"], attempt["errorClass"], attempt.get("fault")))
    }
    click.echo("".join(f"\n{line}" for line in lines), nl=bool(lines))


def _show(operator: Operator, found: dict[str, Any]) -> None:
    log = found["attemptLog"]
    show_fields(
        {
            "Delivery": found["id"],
            "webhook-id": found["messageId"],
            "Event": f"{found['eventType']}, {found['eventId'] or 'a test'}",
            "Payment": found["paymentId"],
            "State": _state(found),
            "Created": f"{moment(found['createdAt'])} UTC",
            "Next attempt": found["nextAttemptAt"] and f"{_next(found)}{'' if _is_held(found) else ' UTC'}",
            "Answer": _last_words(log),
        }
    )
    click.echo()
    columns = {
        "n": "No.",
        "time": "Time (UTC)",
        "trigger": "Trigger",
        "status": "Status",
        "error": "Error",
        "durationMs": "ms",
    }
    if any(one.get("fault") for one in log):
        columns["fault"] = "Injected fault"
    rows = [{**one, "time": moment(one["at"]), "error": failure(one)} for one in log]
    show_rows(rows, columns, "There was no attempt yet.")
    if found["state"] != "succeeded":
        show_advice(log)
        words, command = _way_on(found)
        click.echo(f"\n{words}: {operator.pasted(command)}")


def _last_words(log: Sequence[Row]) -> str | None:
    """What the endpoint said last, in a line; None where it said nothing. No control characters."""
    body = next((one["body"] for one in reversed(log) if one["body"]), "")
    line = " ".join(on_one_line(body).split())
    return f"{line[:ANSWER_SHOWN_MAX]}…" if len(line) > ANSWER_SHOWN_MAX else line or None


def _state(found: Row) -> str:
    """A delivery's state, and what brought it there."""
    state: str = found["state"]
    if found["reason"] is not None:
        return f"{state}: {REASONS.get(found['reason'], found['reason'])}"
    if state == "failed" and found["eventId"] is not None:
        return f"{state}: given up after {ATTEMPTS_MAX} of {ATTEMPTS_MAX} attempts"
    return state


def _way_on(found: Row) -> tuple[str, str]:
    """What gets a delivery to its receiver that is not there yet: in words, and the command."""
    if found["eventId"] is None:
        return "Tests are not sent again. Send another", "webhook test"
    match found["endpointState"]:
        case "paused":
            return "Its endpoint is paused. Let it go on", "webhook resume"
        case "disabled":
            return "Its endpoint is disabled. Switch it on", "webhook enable"
        case "deleted":
            # Since when exactly is not known here: the event may be older than this delivery of it.
            count = f"webhook replay-missing --since {REPLAY_REACH_MS // 86_400_000}d --preview"
            return "Its endpoint was deleted. What the present one misses is counted by", count
        case _:
            return "Send it now", f"webhook resend {found['id']}"


def _is_held(row: Row) -> bool:
    return bool(row["endpointState"] == "paused")


def _next(row: Row) -> str | None:
    """When the next attempt is made, if it is made at a time."""
    if row["nextAttemptAt"] is None:
        return None
    return "on hold" if _is_held(row) else moment(row["nextAttemptAt"])


def _brief(row: Row) -> str:
    tries = f"{row['attempts']} attempt{'' if row['attempts'] == 1 else 's'}"
    status = "" if row["lastStatus"] is None else f", last answered {row['lastStatus']}"
    later = f", {'' if _is_held(row) else 'next at '}{row['next']}" if row["next"] else ""
    return (
        f"{click.style(row['id'], bold=True)}  {row['state']}\n"
        f"  {row['at']}  {row['eventType']}  {row['paymentId'] or 'a test'}\n"
        f"  {tries}{status}{later}"
    )


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
