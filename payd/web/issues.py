"""What is wrong with a body that is JSON and misses its schema, field by field, in words for people.

Source: SPEC.md, "Error body".
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from inspect import isclass
from itertools import islice
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from payd.core.errors import Issue

# Who is told so many has enough to do.
ISSUES_MAX: Final = 20

# msgspec says where a value is wrong at the end of its message: "… - at `$.amount.value`".
_PLACE = re.compile(r"^(?P<words>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]*)`$")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>[^`]*)`$")
_TYPES = re.compile(r"`(?P<names>\w+(?: \| \w+)*)`")
# msgspec names types as Python does, or as JSON does; people are told them as JSON does.
_TYPE_WORDS: Final = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "an object",
}
_REQUIRED: Final = "Required."
_UNKNOWN_FIELD: Final = "Unknown field."


def issues_of(value: bytes, type: Any, at: str = "") -> tuple[Issue, ...]:
    """Each field that is wrong, in the schema's order, and then what it does not know; `ISSUES_MAX` at most.

    msgspec stops at the first one, and who mends that would be told of the next one only then.

    Args:
        value: JSON.
        type: What it was to be. None are given if it is.
        at: Its place in the body; nothing for the whole.
    """
    return tuple(islice(_misses(value, type, at), ISSUES_MAX))


def issue_of(words: str, at: str = "") -> Issue:
    """The field and the complaint in msgspec's words about what is `at` a place; the whole body is `body`."""
    match = _PLACE.match(words)
    assert match is not None, "the pattern matches any text"
    message = match["words"]
    path = (at + (match["path"] or "").replace("[...]", "[]")).lstrip(".")
    if missing := _MISSING.match(message):
        path, message = _joined(path, missing["name"]), _REQUIRED
    elif unknown := _UNKNOWN.match(message):
        path, message = _joined(path, unknown["name"]), _UNKNOWN_FIELD
    elif message.startswith("Expected"):
        message = _TYPES.sub(_in_words, message)
    return Issue(path or "body", message)


def _misses(value: bytes | msgspec.Raw, type: Any, at: str) -> Iterator[Issue]:
    try:
        msgspec.json.decode(value, type=type)
    except msgspec.DecodeError as error:
        found = False
        for issue in _inside(bytes(value), type, at):
            found = True
            yield issue
        if not found:
            yield _among(issue_of(str(error), at), type)


def _inside(value: bytes, type: Any, at: str) -> Iterator[Issue]:
    """What is wrong with the fields of an object, or the items of an array; nothing, if it was to be neither.

    Every value is read from the bytes that it came in, so that it is judged as it is in the whole.
    """
    kinds = list(_kinds(type))
    structs = [kind for kind in kinds if isclass(kind) and issubclass(kind, msgspec.Struct)]
    items = [get_args(kind)[0] for kind in kinds if get_origin(kind) is list or get_args(kind)[1:] == (...,)]
    begins = value.lstrip()[:1]
    if begins == b"{" and len(structs) == 1:
        given = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
        for field in msgspec.structs.fields(structs[0]):
            path = _joined(at, field.encode_name)
            if field.encode_name in given:
                yield from _misses(given.pop(field.encode_name), field.type, path)
            elif field.required:
                yield Issue(path, _REQUIRED)
        if structs[0].__struct_config__.forbid_unknown_fields:
            yield from (Issue(_joined(at, name), _UNKNOWN_FIELD) for name in given)
    elif begins == b"[" and len(items) == 1:
        for place, item in enumerate(msgspec.json.decode(value, type=list[msgspec.Raw])):
            yield from _misses(item, items[0], f"{at}[{place}]")


def _among(issue: Issue, type: Any) -> Issue:
    """With the words that would do: msgspec names the one alone that does not."""
    words = [word for kind in _kinds(type) if get_origin(kind) is Literal for word in get_args(kind)]
    is_choice = bool(words) and issue.message.startswith("Invalid enum value")
    return Issue(issue.field, f"One of {', '.join(words)}.") if is_choice else issue


def _kinds(type: Any) -> Iterator[Any]:
    """Those of which it may be one, without what is annotated."""
    origin = get_origin(type)
    if origin is Annotated:
        yield from _kinds(get_args(type)[0])
    elif origin in (Union, types.UnionType):
        for each in get_args(type):
            yield from _kinds(each)
    else:
        yield type


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name or "body"


def _in_words(types: re.Match[str]) -> str:
    return " or ".join(_TYPE_WORDS.get(name, name) for name in types["names"].split(" | "))
