"""Logs: one event a line, for people or machines, and never a secret in it.

A secret is kept out twice: by the name it is logged under, and by its looks, wherever in a text it stands.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import logging
import os
import re
import select
import stat
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any, Final, TextIO

import msgspec
import structlog

REDACTED: Final = "[redacted]"

# Last words of names, so that `webhook_secret` and `Api-Key` are found too.
SECRET_NAMES: Final = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|secrets?|signature|authorization|password|token|cookie|private[_-]?key)$",
    re.IGNORECASE,
)
# What secrets of this house look like. A bare `svc_test_` is a prefix and may be shown.
SECRET_SHAPES: Final = re.compile(r"whsec_[A-Za-z0-9+/_=-]+|svc_(?:test_)?[A-Za-z0-9]{8,}")

PLAIN: Final = frozenset({type(None), bool, int, float})  # most fields: nothing to look for
DEPTH_MAX: Final = 6  # what is nested deeper is not worth a line
NAMES_KEPT: Final = 1024  # of fields; code has a few hundred, and data that is logged brings some along
TEXT_MAX: Final = 8192  # characters of one value: a traceback fits, a body does not
STALL_MAX_MS: Final = 100  # the server waits no longer for who reads the log, and then not at all

# What a terminal takes for an order, in a text of a stranger.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _Lines:
    """A stream whose reader may stall or go away: a log that cannot be written must not stop a payment.

    What a pipe, a terminal or a socket does not take soon is lost, and counted in a line of its own once it
    takes lines again; files are written as they are. A line that was begun is written to its end; where that
    cannot be, because its reader has gone, the next one begins on a line of its own.

    Args:
        stream: Where they go.
        line_of: Makes the line of an event that has been through none of the processors.
    """

    def __init__(self, stream: TextIO, line_of: Callable[[dict[str, Any]], str]) -> None:
        self._stream = stream
        self._line_of = line_of
        self._lock = threading.Lock()
        self._fd = _waited_for(stream)
        self._poll = select.poll()
        if self._fd is not None:
            self._poll.register(self._fd, select.POLLOUT)
        # Of the line that was being written when the reader stalled.
        self._rest = b""
        # What ends a line of which a part was written, and never will be more.
        self._cut = b""
        self._lost = 0

    def write(self, text: str) -> None:
        try:
            if self._fd is None:
                self._stream.write(text)
            else:
                self._pass_on(self._fd, text)
        except (OSError, ValueError):  # ValueError: it is closed
            return

    def flush(self) -> None:
        try:
            self._stream.flush()
        except (OSError, ValueError):
            return

    def _pass_on(self, fd: int, text: str) -> None:
        with self._lock:
            begun = bool(self._rest)
            try:
                if not self._take(fd, patient=not self._rest):
                    self._lost += 1
                    return
                begun = False
                if lost := self._lost:
                    text = self._line_of({"event": "log.lines_lost", "lines": lost}) + text
                self._rest = self._cut + text.encode("utf-8", "backslashreplace")
                self._take(fd, patient=True)
                self._lost -= lost
            except OSError:
                self._rest = b""
                self._lost += 1 + begun

    def _take(self, fd: int, *, patient: bool) -> bool:
        """Write what is left, in pieces that do not block where there is room; False when there is none."""
        while self._rest:
            if not self._poll.poll(STALL_MAX_MS if patient else 0):
                return False
            try:
                written = os.write(fd, self._rest[: select.PIPE_BUF])
            except BlockingIOError:  # a parent has it not block, and another who writes there was faster
                return False
            self._rest = self._rest[written:]
            self._cut = b"\n" if self._rest else b""
        return True


def _waited_for(stream: TextIO) -> int | None:
    """The descriptor of a stream that somebody reads; None of a file, which the disk takes."""
    try:
        fd = stream.fileno()
        return None if stat.S_ISREG(os.fstat(fd).st_mode) else fd
    except (OSError, ValueError, AttributeError):
        return None


def configure(format: str, level: str, stream: TextIO | None = None) -> None:
    """Set up logging for the process; libraries' own loggers end on the same stream in the same form.

    Args:
        format: "json", "console", or "auto": console where `stream` is a terminal.
        level: "debug", "info", "warning" or "error".
        stream: Where lines go; None is standard error.
    """
    stream = stream or sys.stderr
    console = format == "console" or (format == "auto" and stream.isatty())
    render: Any = (
        structlog.dev.ConsoleRenderer(
            colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
        if console
        else structlog.processors.JSONRenderer(serializer=_to_json)
    )
    first: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[structlog.typing.Processor] = [structlog.processors.format_exc_info, redact, render]
    if console:
        last.insert(-1, escape)

    def line_of(event: dict[str, Any]) -> str:
        for step in (*first, render):
            event = step(None, "warning", event)
        return f"{event}\n"

    lines: Any = _Lines(stream, line_of)
    events = [*first, *last]
    if console:
        events.insert(-1, shorten)
    structlog.configure(
        processors=events,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=lines),
    )
    handler = logging.StreamHandler(lines)
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=first, processors=[without_meta, *last])
    )
    # Libraries are asked for less than payd itself: what they do in detail is not our news.
    logging.basicConfig(
        level=max(logging.WARNING, getattr(logging, level.upper())), handlers=[handler], force=True
    )


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The structlog processor that takes secrets out of an event."""
    return {
        name: value if type(value) in PLAIN else _shown(name, value, DEPTH_MAX)
        for name, value in event.items()
    }


def escape(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The structlog processor that keeps texts from steering a terminal; what is nested is shown escaped."""
    return {
        name: _CONTROLS.sub(_escaped, value) if isinstance(value, str) else value
        for name, value in event.items()
    }


def _escaped(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def shorten(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The structlog processor that makes an event fit a person's terminal; the JSON form keeps every field.

    Raises:
        structlog.DropEvent: The command line has said the same in words.
    """
    match event:
        case {"event": "server.ready"}:
            raise structlog.DropEvent
        case {"event": "webhook.attempt", "event_type": kind, "n": n}:
            outcome = event.get("status") or event.get("error_class")
            next_at = event.get("next_at")
            # By the clock of the realm, and of that day: a retry is hours away at most.
            then = f", next at {next_at[11:19]}" if next_at is not None else ""
            if event.get("level") == "warning":
                then = f", given up; see payd webhook delivery {event.get('delivery_id')}"
            kept = {name: event[name] for name in ("timestamp", "level") if name in event}
            return {**kept, "event": f"webhook.attempt {kind} {outcome}, attempt {n}{then}"}
        case _:
            return event


@lru_cache(maxsize=NAMES_KEPT)
def _is_secret_name(name: str) -> bool:
    return SECRET_NAMES.search(name) is not None


def _shown(name: str, value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return REDACTED if _is_secret_name(name) else redacted(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if _is_secret_name(name):
        return REDACTED
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if depth and isinstance(value, Mapping):
        return {str(key): _shown(str(key), inner, depth - 1) for key, inner in value.items()}
    if depth and isinstance(value, list | tuple | set | frozenset):
        return [_shown("", inner, depth - 1) for inner in value]
    return redacted(repr(value))


def redacted(text: str) -> str:
    """A text without what looks like a secret of this house, and of bounded length."""
    text = text[:TEXT_MAX]
    # Hardly a text has any, and a look for how they begin is ten times as fast as the search.
    return SECRET_SHAPES.sub(REDACTED, text) if "whsec_" in text or "svc_" in text else text


def _to_json(event: Any, **_options: Any) -> str:
    return msgspec.json.encode(event, enc_hook=repr).decode()
