"""What a fuzzed parser is: a function of bytes, inputs to begin with, and all that it may raise."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

import msgspec

from payd.core.errors import PaydError

# Never what a parser has to say of its input, whatever its documented errors inherit from.
NEVER: Final = (
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    UnicodeError,
    ArithmeticError,
    MemoryError,
    AssertionError,
)

Run = Callable[[bytes], object]


class Target(NamedTuple):
    """A parser that meets what others wrote.

    Attributes:
        run: Parses bytes; where there is an encoder, it asserts that what was parsed survives the round trip.
        seeds: Inputs that are understood, or were found to break something once.
        raises: Its documented errors.
    """

    run: Run
    seeds: tuple[bytes, ...]
    raises: tuple[type[Exception], ...] = (PaydError,)


def is_refused(target: Target, data: bytes) -> bool:
    """Whether the target refuses an input in a documented way; whatever else it raises comes out of here."""
    try:
        target.run(data)
    except target.raises as refused:
        if isinstance(refused, NEVER):
            raise
        return True
    return False


def of_text(parse: Callable[[str], object]) -> Run:
    """A parser of text, as it comes out of JSON and of query strings."""
    return lambda data: parse(data.decode("utf-8", "replace"))


def of_header(parse: Callable[[str], object]) -> Run:
    """A parser of a header's value."""
    return lambda data: parse(data.decode("latin-1"))


def of_argument(parse: Callable[[str], object]) -> Run:
    """A parser of what a command was given, which need not be UTF-8."""
    return lambda data: parse(data.decode("utf-8", "surrogateescape"))


def of_json(read: Callable[[Any], object]) -> Run:
    """A reader of JSON that was decoded as a node's answers are; what is no JSON never gets there."""

    def run(data: bytes) -> object:
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return read(value)

    return run


def finish(work: Coroutine[Any, Any, object]) -> object:
    """The result of a coroutine that has nothing to wait for."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise AssertionError("it waits for something")


def seeds(*examples: object) -> tuple[bytes, ...]:
    """Examples as bytes: text in UTF-8, bytes as they are, and all else as JSON."""
    return tuple(
        one if isinstance(one, bytes) else one.encode() if isinstance(one, str) else msgspec.json.encode(one)
        for one in examples
    )
