"""A file of fixtures: calls of the API in order, each of which may use what those before it answered.

`${payment.paymentId}` is a value of the answer to the step that is named `payment`; `${run}` is new each time
the file is run. A text that is nothing else has the value's own type.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from payd.cli.failure import Refused

# Far more than anybody writes by hand; the whole file is in memory.
FILE_BYTES_MAX: Final = 1024 * 1024
STEPS_MAX: Final = 200
RUN: Final = "run"
"""The name of what is new each time."""

CREDENTIALS: Final = frozenset({"api-key", "app-id", "client-id"})

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PLACE: Final = re.compile(r"`\$\.steps\[(\d+)\]([^`]*)`")
_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One call.

    Attributes:
        method: Upper case.
        path: Such as `/v1/payments?limit=1`.
        name: By which later steps use the answer; empty: none does.
        headers: Beside credentials, which are the operator's.
        body: JSON; null: none is sent.
        error: The code with which it is to be refused; empty: it is to succeed.
        expect: Values of the answer by their place in it, such as `amount.value`.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    name: str = ""
    headers: dict[str, str] = {}
    body: Any = None
    error: str = ""
    expect: dict[str, Any] = {}

    def words(self, number: int) -> str:
        """What it is called in messages."""
        named = f" ({self.name})" if self.name else ""
        return f"Step {number}{named}, {self.method} {self.path}"


class Fixtures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    steps: tuple[Step, ...]


class Missing(Exception):
    """A value that is used is not there; the message says which."""


def read_fixtures(file: Path, known: Mapping[str, Any]) -> tuple[Step, ...]:
    """The steps of a file, which can be run as far as can be seen before any is.

    Args:
        file: JSON, or TOML where its name ends so.
        known: Values by name that are there from the beginning.

    Raises:
        Refused: It cannot be read, or is none; the message names the step.
        OSError: It is not there.
    """
    with file.open("rb") as opened:
        raw = opened.read(FILE_BYTES_MAX + 1)
    if len(raw) > FILE_BYTES_MAX:
        raise Refused(f"{file} is larger than {FILE_BYTES_MAX} bytes.")
    try:
        value = tomllib.loads(raw.decode()) if file.suffix == ".toml" else msgspec.json.decode(raw)
        steps = msgspec.convert(value, Fixtures).steps
    except msgspec.ValidationError as error:
        raise Refused(f"{file}: {_numbered(str(error))}") from None
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(f"{file}: {error}") from None
    if not 1 <= len(steps) <= STEPS_MAX:
        raise Refused(f"{file} must have 1 to {STEPS_MAX} steps.")
    names = set(known)
    for number, step in enumerate(steps, 1):
        for problem in _problems(step, names):
            raise Refused(f"{file}: {step.words(number)}: {problem}")
        names |= {step.name} - {""}
    return steps


def filled(value: Any, known: Mapping[str, Any]) -> Any:
    """A value with what its references stand for.

    Raises:
        Missing: One stands for nothing, or for what has no place within a text.
    """
    if isinstance(value, dict):
        return {filled_text(name, known): filled(one, known) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, known) for one in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value)
    return filled_text(value, known) if whole is None else found_at(known, whole[1])


def filled_text(text: str, known: Mapping[str, Any]) -> str:
    """A text with what its references stand for, as text. Raises Missing."""

    def shown(reference: re.Match[str]) -> str:
        found = found_at(known, reference[1])
        if isinstance(found, bool) or not isinstance(found, str | int):
            raise Missing(f"{reference[0]} is neither text nor a whole number.")
        return str(found)

    return _REFERENCE.sub(shown, text)


def found_at(value: Any, place: str) -> Any:
    """What is at a place such as `data.0.id`. Raises Missing where nothing is."""
    for part in place.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            raise Missing(f"there is no {place}: {part} is not there.")
    return value


def _problems(step: Step, names: set[str]) -> Iterator[str]:
    """What is wrong with a step, by itself and behind steps of these names."""
    if step.name and not _NAME.fullmatch(step.name):
        yield "a name has letters, digits and _, and begins with a letter."
    if step.name in names:
        yield f"{step.name} is the name of something before it."
    if not step.path.startswith("/v1/"):
        yield "the path must begin with /v1/."
    for header in step.headers:
        if header.lower() in CREDENTIALS:
            yield f"{header} is not needed: the step is done as the operator."
    for text in _texts([step.path, step.headers, step.body, step.expect]):
        rest = text
        for reference in _REFERENCE.finditer(text):
            rest = rest.replace(reference[0], "")
            if reference[1].partition(".")[0] not in names:
                yield f"{reference[0]} is of no step before it, and not given with --set."
        if "${" in rest:
            yield f"a reference is ${{name.field}}, not as in {text!r}."


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from (name, *_texts(one))
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _numbered(words: str) -> str:
    """A complaint with steps counted as people count them."""
    return _PLACE.sub(lambda at: f"step {int(at[1]) + 1}{at[2]}", words)
