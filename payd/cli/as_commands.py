"""What the API tells its callers to do, as the command that does it: who typed one has no HTTP client."""

from __future__ import annotations

import re
from typing import Final

from payd.cli.pasted import Paste

_COMMANDS: Final = tuple(
    (re.compile(told), words, command)
    for told, words, command in (
        (r"; PUT /v1/webhooks/endpoint registers one\.", "Set it", "webhook set --url URL"),
        (r"; POST /v1/webhooks/endpoint/enable first\.", "Enable it first", "webhook enable"),
        (r"; enable it first\.", "Enable it first", "webhook enable"),
        (r"; POST /v1/webhooks/endpoint/resume first\.", "Let it go on first", "webhook resume"),
        (r"; POST /v1/webhooks/endpoint/test sends another\.", "Send another", "webhook test"),
        (
            r"\. Change its destination with PUT instead\.",
            "Change its destination",
            "merchant change-destination MERCHANT DESTINATION ADDRESS",
        ),
        (
            r"\. Create one with POST /v1/merchants, and say where its money goes with POST \S+\.",
            "Make one, and say where its money goes",
            "merchant create NAME --email ADDRESS",
        ),
        (
            r"\. Send its event to the present one: POST /v1/webhooks/replay-missing since (\S+)\.",
            "Send its event to the present one",
            r"webhook replay-missing --since \1",
        ),
    )
)
"""How a sentence of the API ends, what is said instead, and the command behind it."""

# A command that a message names, and those that know no mode.
_NAMED: Final = re.compile(r"`payd ([a-z][^`]*)`")
_OF_THE_HOUSE: Final = ("account", "user", "doctor")

# Where the API takes several, a command gives one, and names no place in a list.
_ONLY_ONE: Final = "settlements[0]."


def as_commands(message: str, pasted: Paste, pasted_here: Paste) -> str:
    """A message of the API for the command line.

    Args:
        message: As the API gives it; what it names as `payd …` works when it is pasted, too.
        pasted: Makes a command on the same realm and account from the words behind `payd`.
        pasted_here: Makes one on the same house, whatever its realm.
    """
    message = message.removeprefix(_ONLY_ONE)
    for told, words, command in _COMMANDS:
        found = told.search(message)
        if found is not None:
            typed = pasted(found.expand(command))
            return f"{message[: found.start()]}. {words}: {typed}{message[found.end() :]}"

    def named(found: re.Match[str]) -> str:
        command = found[1]
        return f"`{(pasted_here if command.startswith(_OF_THE_HOUSE) else pasted)(command)}`"

    return _NAMED.sub(named, message)
