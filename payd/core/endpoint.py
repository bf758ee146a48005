"""A webhook endpoint: which events it wants, which URL it may have, its secrets, and when it is given up.

Two endpoints are the house's own and no account's: where its notices go, and its canary.

Source: SPEC.md, "Delivery rules"; SPEC.md, "Signature"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar
from urllib.parse import urlsplit

import idna
import msgspec

from payd.core.errors import EndpointDisabled, InvalidParams, InvalidState, Issue, ParamsValidation
from payd.core.event import iso_ms

EVENT_TYPES: Final = (
    "payment.created",
    "payment.processing",
    "payment.succeeded",
    "payment.failed",
    "payment.expired",
    "payment.cancelled",
    "payment.settled",
)
# What an endpoint gets that does not choose.
ALL: Final = EVENT_TYPES

_HOUR_MS: Final = 3600 * 1000

RESPONSE_DEADLINE_S: Final = 15
REPLAY_REACH_MS: Final = 14 * 24 * _HOUR_MS
SECRET_OVERLAP_MS: Final = 24 * _HOUR_MS
# Each one adds a signature to every delivery while the old ones run out.
SECRETS_MAX: Final = 5
DISABLE_AFTER_MS: Final = 5 * 24 * _HOUR_MS
# How long it has failed when its merchant is warned: a day, three days, and half a day before the end.
WARN_AFTER_MS: Final = (24 * _HOUR_MS, 72 * _HOUR_MS, 108 * _HOUR_MS)
# Without traffic for longer than this the failure clock starts over: silence is no evidence of failure.
FAILURE_GAP_MAX_MS: Final = 24 * _HOUR_MS
URL_MAX: Final = 2048  # characters; common servers and proxies refuse longer ones
HOST_MAX: Final = 253  # octets, RFC 1035

# Both the id and the account of an endpoint of the house: no account has such an id.
NOTIFY: Final = "house:notify"
CANARY: Final = "house:canary"

DEFAULT_PORTS: Final = {"https": 443, "http": 80}

_ADDRESS: Final = re.compile(r"(?:\[(?P<ip>[^\[\]]*)\]|(?P<name>[^\[\]:]*))(?::(?P<port>[0-9]{1,5}))?")
# Underscores are no host name by the book, but names of containers and services have them.
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_PRINTABLE_ASCII: Final = re.compile(r"[\x21-\x7e]*")


class EndpointState(enum.StrEnum):
    """Whether events are sent to an endpoint; a paused one is owed them until it goes on."""

    ENABLED = "enabled"
    PAUSED = "paused"
    DISABLED = "disabled"
    DELETED = "deleted"


class Endpoint(msgspec.Struct, frozen=True):
    """An account's endpoint in one realm; times are Unix milliseconds in the realm's time.

    Attributes:
        events: The types it wants.
        failing_since_ms: When the failures began that no success has ended; None: it works, or is unused.
        headers: What its requests have besides, a JSON object that is sealed for its id; None: nothing.
        header_names: Their names.
        off_since_ms: Since when it is paused or disabled.
        warnings: How many times its merchant was warned in this failing time.
    """

    id: str
    account_id: str
    url: str
    events: tuple[str, ...]
    state: EndpointState
    failing_since_ms: int | None
    last_failure_at_ms: int | None
    last_success_at_ms: int | None
    created_at_ms: int
    headers: bytes | None = None
    header_names: tuple[str, ...] = ()
    off_since_ms: int | None = None
    warnings: int = 0

    @property
    def is_house(self) -> bool:
        """Whether it is one of the house's own, which is never given up."""
        return self.id in (NOTIFY, CANARY)


class Secret(msgspec.Struct, frozen=True):
    """A signing secret.

    Attributes:
        value: `whsec_…`; not shown by `repr`.
        created_at_ms: Unix milliseconds in the realm's time.
        expires_at_ms: From when on it signs nothing more; None for the current one.
    """

    value: str
    created_at_ms: int
    expires_at_ms: int | None = None

    def __repr__(self) -> str:
        return f"Secret(created_at_ms={self.created_at_ms}, expires_at_ms={self.expires_at_ms})"


def check_events(events: Sequence[str] | None) -> tuple[str, ...]:
    """The event types an endpoint asks for, in its own order; all of them for None.

    Raises:
        ParamsValidation: The list is empty, or names a type twice or one that does not exist; its issue's
            field is `events`.
    """
    if events is None:
        return ALL
    unknown = [name for name in events if name not in EVENT_TYPES]
    if not events:
        words = "must name at least one event type"
    elif unknown:
        words = f"{unknown[0]!r} is no event type; there are {', '.join(EVENT_TYPES)}"
    elif len(set(events)) < len(events):
        words = "must not name an event type twice"
    else:
        return tuple(events)
    raise ParamsValidation.of(Issue("events", words))


def after_attempt(endpoint: Endpoint, ok: bool, now_ms: int) -> Endpoint:
    """The endpoint after an attempt that ended at `now_ms`: its failure clock moves, and may disable it.

    One success clears the clock. A failure starts it, or starts it over when the failure before is more than
    `FAILURE_GAP_MAX_MS` away: ago, or ahead of a wall clock that was set back. It counts the warnings that
    are due by now, and disables the endpoint once it has run for `DISABLE_AFTER_MS`.

    Source: SPEC.md, "Delivery rules"; DESIGN.md, "7. Events and webhooks".
    """
    replace = msgspec.structs.replace
    if ok:
        return replace(endpoint, failing_since_ms=None, last_success_at_ms=now_ms, warnings=0)
    since_ms, warnings = endpoint.failing_since_ms, endpoint.warnings
    if since_ms is None or _starts_over(endpoint, now_ms):
        since_ms, warnings = now_ms, 0
    failing = replace(
        endpoint,
        failing_since_ms=since_ms,
        last_failure_at_ms=now_ms,
        warnings=max(warnings, sum(now_ms - since_ms >= after_ms for after_ms in WARN_AFTER_MS)),
    )
    if endpoint.state is EndpointState.ENABLED and not endpoint.is_house:
        return disable(failing, now_ms) if now_ms - since_ms >= DISABLE_AFTER_MS else failing
    return failing


def move(endpoint: Endpoint, url: str, events: tuple[str, ...]) -> Endpoint:
    """The endpoint with another choice of events, and at another URL, which has not failed yet."""
    moved = msgspec.structs.replace(endpoint, url=url, events=events)
    return moved if url == endpoint.url else _without_failures(moved)


def _starts_over(endpoint: Endpoint, now_ms: int) -> bool:
    """Whether a failure now would be the first of its failing time, however long the one before went on."""
    last_ms = endpoint.last_failure_at_ms
    return last_ms is None or abs(now_ms - last_ms) > FAILURE_GAP_MAX_MS


def disables_at_ms(endpoint: Endpoint, now_ms: int) -> int | None:
    """When an endpoint that goes on failing is given up; None when none is about to be."""
    since_ms = endpoint.failing_since_ms
    if since_ms is None or endpoint.state is not EndpointState.ENABLED or _starts_over(endpoint, now_ms):
        return None
    return since_ms + DISABLE_AFTER_MS


def missed_since_ms(endpoint: Endpoint, now_ms: int) -> int:
    """Since when events count as missed: since it was registered, as far as a replay reaches back.

    One that was registered after now is older than a clock that was set back since.
    """
    made_ms = endpoint.created_at_ms if endpoint.created_at_ms <= now_ms else 0
    return max(made_ms, now_ms - REPLAY_REACH_MS)


def was_given_up(endpoint: Endpoint) -> bool:
    """Whether an endpoint that is off failed for too long, and was not switched off by somebody.

    A failure ended it then. Who pauses it for days, and then disables it, ends it without one.
    """
    since_ms, off_ms, last_ms = endpoint.failing_since_ms, endpoint.off_since_ms, endpoint.last_failure_at_ms
    if since_ms is None or off_ms is None or last_ms is None:
        return False
    return off_ms - since_ms >= DISABLE_AFTER_MS and last_ms >= off_ms


def enable(endpoint: Endpoint) -> Endpoint:
    """The endpoint on again, with five fresh days if it was disabled; a deleted one stays deleted."""
    if endpoint.state in (EndpointState.DELETED, EndpointState.ENABLED):
        return endpoint
    on = msgspec.structs.replace(endpoint, state=EndpointState.ENABLED, off_since_ms=None)
    return on if endpoint.state is EndpointState.PAUSED else _without_failures(on)


def pause(endpoint: Endpoint, now_ms: int) -> Endpoint:
    """The endpoint on hold: it is owed events and sent none.

    Raises:
        EndpointDisabled: It is disabled: it is owed nothing, and pausing would not change that.
    """
    if endpoint.state is EndpointState.DISABLED:
        raise EndpointDisabled("The webhook endpoint is disabled; enable it first.")
    if endpoint.state is not EndpointState.ENABLED:
        return endpoint
    return msgspec.structs.replace(endpoint, state=EndpointState.PAUSED, off_since_ms=now_ms)


def disable(endpoint: Endpoint, now_ms: int) -> Endpoint:
    """The endpoint switched off: it is owed nothing more; a deleted one stays deleted."""
    if endpoint.state in (EndpointState.DELETED, EndpointState.DISABLED):
        return endpoint
    return msgspec.structs.replace(endpoint, state=EndpointState.DISABLED, off_since_ms=now_ms)


def _without_failures(endpoint: Endpoint) -> Endpoint:
    return msgspec.structs.replace(endpoint, failing_since_ms=None, warnings=0)


class _Dated(Protocol):
    """What a secret is chosen by, opened or sealed."""

    @property
    def created_at_ms(self) -> int: ...

    @property
    def expires_at_ms(self) -> int | None: ...


S = TypeVar("S", bound=_Dated)


def valid_secrets(secrets: Iterable[S], now_ms: int) -> tuple[S, ...]:
    """The secrets that sign at `now_ms`, the current one first, then by age, newest first.

    Source: SPEC.md, "Signature".
    """
    valid = [one for one in secrets if one.expires_at_ms is None or one.expires_at_ms > now_ms]
    return tuple(sorted(valid, key=lambda one: (one.expires_at_ms is None, one.created_at_ms), reverse=True))


def rotate(secrets: Iterable[Secret], fresh: str, now_ms: int) -> tuple[Secret, ...]:
    """The secrets after a rotation, `fresh` first; the others sign on for `SECRET_OVERLAP_MS` at most.

    Raises:
        InvalidState: `SECRETS_MAX` secrets still sign; wait until one has run out.
    """
    valid = valid_secrets(secrets, now_ms)
    if len(valid) >= SECRETS_MAX:
        next_at = iso_ms(min(one.expires_at_ms for one in valid if one.expires_at_ms is not None))
        words = f"{len(valid)} secrets still sign; rotate again when the oldest stops, at {next_at}."
        raise InvalidState(words, details={"validSecrets": len(valid), "oldestExpiresAt": next_at})
    until_ms = now_ms + SECRET_OVERLAP_MS
    before = (
        msgspec.structs.replace(
            one, expires_at_ms=until_ms if one.expires_at_ms is None else min(one.expires_at_ms, until_ms)
        )
        for one in valid
    )
    return (Secret(fresh, now_ms), *before)


def old_secrets_until_ms(secrets: Iterable[_Dated], now_ms: int) -> int | None:
    """When the last secret that was rotated out stops signing; None when none signs any more."""
    ends = [one.expires_at_ms for one in secrets if one.expires_at_ms is not None]
    return max((at_ms for at_ms in ends if at_ms > now_ms), default=None)


def check_url(url: str, allow_http: bool) -> tuple[str, str, int]:
    """Scheme, host and port of a URL that an endpoint may have.

    Whether its addresses may be called is asked when they are known.

    Returns:
        `https` or `http`; the host in lower-case ASCII (IDNA), an IPv6 address without brackets; the port.

    Raises:
        InvalidParams: The URL cannot be called; the message says why.

    Source: DESIGN.md, "7. Events and webhooks".
    """
    if len(url) > URL_MAX:
        raise InvalidParams(f"The url must be at most {URL_MAX} characters.")
    # Before anything is parsed: the parser would drop some of these without a word.
    if any(char.isspace() or not char.isprintable() or char == "\\" for char in url):
        raise InvalidParams("The url must not contain white space, control characters or backslashes.")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidParams("The url is not a URL.") from error
    _check_scheme(parts.scheme, allow_http)
    if "@" in parts.netloc:
        raise InvalidParams("The url must not contain a user name or password.")
    rest = parts.path + parts.query + parts.fragment
    if _PRINTABLE_ASCII.fullmatch(rest) is None:
        raise InvalidParams("The url must have its path and query in percent-encoded ASCII.")
    return parts.scheme, *_host_and_port(parts.netloc, DEFAULT_PORTS[parts.scheme])


def _check_scheme(scheme: str, allow_http: bool) -> None:
    if scheme == "https" or (scheme == "http" and allow_http):
        return
    if scheme == "http":
        words = "The url must begin with https://; for tests, allow_http in [webhooks.test] permits http."
        raise InvalidParams(words)
    raise InvalidParams("The url must begin with https:// (or http:// where it is allowed).")


def _host_and_port(netloc: str, default_port: int) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(netloc)
    if found is None:
        raise InvalidParams("The url must have a host and, after it, nothing but a port.")
    port = default_port if found["port"] is None else int(found["port"])
    if not 1 <= port <= 65535:
        raise InvalidParams("The url's port must be from 1 to 65535.")
    if found["ip"] is not None:
        return _ipv6_host(found["ip"]), port
    return _ascii_host(found["name"]), port


def _ipv6_host(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError as error:
        raise InvalidParams("The url's host is not an IPv6 address.") from error
    if address.scope_id is not None:
        raise InvalidParams("The url's host must be an address without a zone.")
    return str(address)


def _ascii_host(name: str) -> str:
    try:
        host = name.lower() if name.isascii() else idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise InvalidParams("The url's host is not a domain name.") from error
    host = host.removesuffix(".")
    if not host:
        raise InvalidParams("The url must have a host.")
    if len(host) > HOST_MAX or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise InvalidParams("The url's host is not a domain name.")
    return host
