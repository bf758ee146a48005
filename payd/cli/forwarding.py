"""Events to a receiver on this machine, signed as real deliveries are, one after the other.

Source: SPEC.md, "Signature"; SPEC.md, "Delivery rules".
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import click
import trio

from payd import __version__
from payd.cli.following import State, Tell
from payd.clock import WallMs
from payd.core.advice import words_for
from payd.core.endpoint import EVENT_TYPES
from payd.core.errors import InvalidParams
from payd.core.signature import sign
from payd.net.http import Client, Reply, Target

# How often a receiver that does not listen is tried.
KNOCK_S: Final = 1.0

# Nobody took the event: it is held, and with it all that come after.
NOBODY: Final = frozenset(
    {
        "connection_refused",
        "connection_reset",
        "dns_error",
        "network_unreachable",
        "system_error",
        "timeout_connect",
        "tls_error",
    }
)

# Said by the client or by the signature.
TAKEN: Final = frozenset({"host", "connection", "content-length", "transfer-encoding"})
TAKEN_PREFIX: Final = "webhook-"

_PORT: Final = re.compile(r":?(\d{1,5})(?=/|$)")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\x20-\x7e\xa0-\xff]*")

# Slips of the keyboard; `payment.*` is none of any type's.
NEAR: Final = 0.8

Header = tuple[str, str]


class Waiting(State, frozen=True, tag="waiting"):
    """The receiver does not listen; told once until it does."""

    url: str
    reason: str


class Forwarder:
    """Hands events on, and waits for a receiver that is not there.

    Args:
        client: That may call every address.
        url: The receiver's, for people.
        target: The same.
        headers: Beside those of a delivery; a name that both have is the caller's.
        secrets: What signs, the newest first; asked for at each attempt.
        tell: Told that the receiver does not listen.
        wall_ms: Unix milliseconds.
    """

    def __init__(
        self,
        client: Client,
        *,
        url: str,
        target: Target,
        headers: Iterable[Header],
        secrets: Callable[[], Awaitable[Sequence[str]]],
        tell: Tell,
        wall_ms: WallMs,
    ) -> None:
        self._client = client
        self._url = url
        self._target = target
        self._headers = tuple(headers)
        self._secrets = secrets
        self._tell = tell
        self._wall_ms = wall_ms

    async def forward(self, event_id: str, body: bytes) -> Reply:
        """Hand one event on: the answer, or how the receiver failed to give one."""
        waits = False
        while True:
            headers = self._signed(await self._secrets(), event_id, body)
            reply = await self._client.send("POST", self._target, headers, body)
            if reply.error_class not in NOBODY:
                return reply
            if not waits:
                waits = True
                self._tell(Waiting(self._url, words_for(reply.error_class)))
            await trio.sleep(KNOCK_S)

    def _signed(self, secrets: Sequence[str], event_id: str, body: bytes) -> list[Header]:
        timestamp_s = self._wall_ms() // 1000
        message_id = message_id_of(event_id)
        own = {name for name, _ in self._headers}
        usual = (("content-type", "application/json"), ("user-agent", f"payd/{__version__}"))
        return [
            *(header for header in usual if header[0] not in own),
            ("webhook-id", message_id),
            ("webhook-timestamp", str(timestamp_s)),
            ("webhook-signature", sign(secrets, message_id, timestamp_s, body)),
            *self._headers,
        ]


def message_id_of(event_id: str) -> str:
    """The `webhook-id`: the same each time an event is forwarded."""
    return "msg_" + event_id.removeprefix("evt_")


def receiver_url(text: str) -> str:
    """Where to forward to, whole: `localhost:4242/hook` is `http://localhost:4242/hook`.

    A port alone, such as `4242` or `:4242/hook`, is one of this machine.

    Raises:
        click.BadParameter: It cannot be called.
    """
    text = _PORT.sub(r"localhost:\1", text, count=1) if _PORT.match(text) else text
    url = text if "://" in text else f"http://{text}"
    try:
        Target.of(url)
    except InvalidParams as error:
        raise click.BadParameter(error.message, param_hint="--forward-to") from None
    return url


def chosen_events(lists: Sequence[str]) -> frozenset[str]:
    """The event types to forward; all where nothing is chosen.

    Args:
        lists: Types with commas between, such as `payment.created,payment.succeeded`.

    Raises:
        click.BadParameter: There is no such type.
    """
    chosen = [name.strip() for text in lists for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in EVENT_TYPES:
            near = _near(name)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(EVENT_TYPES)}."
            raise click.BadParameter(f"{name!r} is no event type; {hint}", param_hint="--events")
    if lists and not chosen:
        raise click.BadParameter("names no event type.", param_hint="--events")
    return frozenset(chosen or EVENT_TYPES)


def _near(name: str) -> str | None:
    """The type that was meant; a pattern, which is none, means no single one."""
    whole = name if name.startswith("payment.") else f"payment.{name}"
    near = difflib.get_close_matches(whole, EVENT_TYPES, 1, NEAR)
    return near[0] if near else None


def extra_headers(lines: Sequence[str]) -> tuple[Header, ...]:
    """Headers to add, from `name: value`.

    Raises:
        click.BadParameter: It is no header, or one that payd sets itself.
    """
    return tuple(map(_header, lines))


def _header(line: str) -> Header:
    name, colon, value = line.partition(":")
    name, value = name.strip().lower(), value.strip()
    if not colon or _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
        raise click.BadParameter(f"{line!r} is no header; write -H 'name: value'.", param_hint="--header")
    if name in TAKEN or name.startswith(TAKEN_PREFIX):
        raise click.BadParameter(f"payd sets {name} itself.", param_hint="--header")
    return name, value
