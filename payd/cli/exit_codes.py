"""With which numbers commands end; the one table of them."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
REFUSED: Final = 1
MISCONFIGURED: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130
UNREAD: Final = 141

EXIT_CODES: Final = {
    DONE: "done",
    REFUSED: "refused, or something is missing; the message says what to do",
    MISCONFIGURED: "wrong usage, or a mistake in payd.toml",
    UNREACHABLE: "the server is needed and does not run, or its data directory is in use and nobody answers",
    INTERRUPTED: "Ctrl-C, where it was not the way to end it, as it is for serve and listen",
    UNREAD: "who read the output has gone, as with | head",
}
"""The last two are what shells make of the signals SIGINT and SIGPIPE."""
