"""What `payd listen` prints: one line an event, for people or for programs, and honest words between."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Protocol

import click
import msgspec

from payd.actors.poster import verdict
from payd.cli.feed_connection import Message
from payd.cli.following import Connected, Full, Lost, State
from payd.cli.forwarding import Waiting
from payd.cli.show import json_line
from payd.cli.signing import SecretChanged
from payd.core.advice import words_for
from payd.net.http import Reply
from payd.web.feed import BEHIND_MAX

# What a shown command has in place of what nobody else should read; payd takes it for no value of these.
HIDDEN: Final = "…"

TYPE_WIDTH: Final = len("payment.processing")


class Payment(msgspec.Struct, frozen=True):
    """What is read of an event's payment."""

    payment_id: str
    status: str


class Head(msgspec.Struct, frozen=True):
    """What is read of an event."""

    id: str
    type: str
    data: Payment


class Told(msgspec.Struct, frozen=True, tag_field="type", tag="event", rename="camel"):
    """One event, forwarded or only seen; `event` is the whole envelope of one that was only seen."""

    cursor: str
    event_id: str
    event_type: str
    payment_id: str
    payment_status: str
    status: int | None
    error_class: str | None
    duration_ms: int | None
    resent: bool
    event: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Stopped(State, frozen=True, tag="stopped"):
    """Told to end; `go_on` is the command that goes on from there, None where nothing was ever read."""

    cursor: str | None
    go_on: str | None


def told(message: Message, head: Head, reply: Reply | None) -> Told:
    """An event and how its receiver answered; None: it was not forwarded."""
    return Told(
        message.cursor,
        head.id,
        head.type,
        head.data.payment_id,
        head.data.status,
        None if reply is None else reply.status,
        None if reply is None else verdict(reply),
        None if reply is None else reply.duration_ms,
        message.resent,
        message.event if reply is None else msgspec.UNSET,
    )


class Ticker(Protocol):
    """Says what happens."""

    def event(self, told: Told, at_ms: int) -> None:
        """An event, at this Unix millisecond."""

    def state(self, state: State) -> None:
        """The connection or the receiver changed."""

    def secret(self, secret: str) -> None:
        """The signing secret, for who asked to see it."""


class JsonTicker:
    """One JSON object a line on standard output."""

    def event(self, told: Told, at_ms: int) -> None:
        """`{"type":"event",…}`."""
        _line(told)

    def state(self, state: State) -> None:
        """`{"type":"state","state":…}`."""
        _line({"type": "state", **msgspec.to_builtins(state)})

    def secret(self, secret: str) -> None:
        """`{"type":"secret","secret":…}`."""
        _line({"type": "secret", "secret": secret})


class PlainTicker:
    """Events on standard output, states on standard error.

    Args:
        resend: The command that sends an event again, whose id follows; None: there is none.
    """

    def __init__(self, resend: str | None = None) -> None:
        self._resend = resend

    def event(self, told: Told, at_ms: int) -> None:
        """Time, type, payment and how it ended; the payment's status where nothing was forwarded."""
        at = datetime.fromtimestamp(at_ms / 1000).strftime("%H:%M:%S")
        parts = [at, told.event_type.ljust(TYPE_WIDTH), told.payment_id, _end(told)]
        again = f"; again: {self._resend} {told.event_id}" if self._resend and told.error_class else ""
        click.echo("  ".join(parts) + (" (resent)" if told.resent else "") + again)

    def state(self, state: State) -> None:
        """In words."""
        click.echo(words(state), err=True)

    def secret(self, secret: str) -> None:
        """The secret and nothing else, for a shell to take."""
        click.echo(secret)


def words(state: State) -> str:
    """A state for people."""
    match state:
        case Connected(after_s=None):
            nothing = "from your cursor; nothing to catch up" if state.resumed else "from the newest event"
            begins = _behind(state.behind, nothing)
            return f"Ready: connected to {state.url} as {state.who}; {begins}"
        case Connected():
            missed = _behind(state.behind, "nothing was missed")
            return f"Ready: connected again after {state.after_s:.1f} s; {missed}"
        case Lost(was_connected=True):
            return f"connection lost: {state.reason}; trying again in {state.retry_s:g} s"
        case Lost():
            return f"not connected: {state.reason}; trying again in {state.retry_s:g} s"
        case Waiting():
            return f"waiting for {state.url} ({state.reason})…"
        case Full():
            return f"{state.waiting} events wait for the receiver; more are read when half of them are gone"
        case SecretChanged(reason=None):
            return "the signing secret changed: events are signed with the new one"
        case SecretChanged():
            return f"the endpoint's secret changed: events are still signed {state.reason}"
        case Stopped(go_on=None):
            return "Stopped."
        case Stopped():
            hidden = f", with your own in place of {HIDDEN}" if HIDDEN in (state.go_on or "") else ""
            return f"Stopped. Go on with{hidden}: {state.go_on}"
        case _:
            raise AssertionError(state)


def _behind(count: int | None, nothing: str) -> str:
    match count:
        case None:
            return "events follow"
        case 0:
            return nothing
        case 1:
            return "1 event to catch up"
        case _:
            return f"{count}{' or more' if count >= BEHIND_MAX else ''} events to catch up"


def _end(told: Told) -> str:
    if told.duration_ms is None:
        return told.payment_status
    shown = words_for(told.error_class or "") if told.status is None else str(told.status)
    colour = "green" if told.error_class is None else "red"
    return f"→ {click.style(f'[{shown}]', fg=colour)} {told.duration_ms} ms"


def _line(value: object) -> None:
    click.echo(json_line(value))
