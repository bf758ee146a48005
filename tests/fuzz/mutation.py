"""How an input is bent: bytes cut, doubled and put in, and JSON with something odd in one place."""

from __future__ import annotations

import random
from typing import Any, Final

import msgspec

BYTES_MAX: Final = 65_536
JSON_DEPTH_MAX: Final = 50

# What has broken parsers elsewhere.
WORDS: Final = (
    b"",
    b"0",
    b"-1",
    b"1e999",
    b"NaN",
    b"Infinity",
    b"null",
    b"true",
    b'""',
    b"[]",
    b"{}",
    b"[" * 2000,
    b"[[" * 20_000,
    b"9" * 20,
    b"9" * 400,
    b"9" * 5000,
    b"\x00",
    b"\xff",
    b"\xc3\x28",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"\xe2\x80\xae",
    b"%00",
    b"%ff",
    b"%2f",
    b"%",
    b"&",
    b"=",
    b";",
    b",",
    b":",
    b"/",
    b"..",
    b"\r\n",
    b"\t",
    b" ",
    b"'",
    b'"',
    b"<",
    b"0x",
    b"0x0",
    b"e",
    b".",
    b"+",
    b"--",
    b"\xd9\xa1",
    b"\x7f",
    b"\x80",
    b"\x81\x82",
)
ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    2**63,
    2**64,
    10**400,
    1.5,
    1e308,
    "",
    "0x",
    "0x0",
    "\x00",
    "é" * 300,
    "9" * 400,
    "ff",
    [],
    {},
    [[]],
    [None],
    {"": None},
    [[[[[[[[1]]]]]]]],
    ["x"] * 300,
)


def bent(data: bytes, seed: int, rounds_max: int = 4) -> bytes:
    """Another input near this one; the same seed bends it the same way."""
    rng = random.Random(seed)
    value = _json_of(data)
    if value is not None and rng.random() < 0.6:
        return msgspec.json.encode(_odd_somewhere(value, rng))
    for _ in range(rng.randint(0, rounds_max)):
        data = _bent_once(data, rng)
    return data[:BYTES_MAX]


def _bent_once(data: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(data))
    end = min(len(data), at + rng.choice((0, 1, 1, 2, 8, 64)))
    match rng.randrange(6):
        case 0:
            return data[:at] + data[end:]
        case 1:
            return data[:end] + data[at:end] * rng.choice((1, 2, 30)) + data[end:]
        case 2:
            return data[:at] + rng.choice(WORDS) + data[at:]
        case 3:
            return data[:at] + rng.choice(WORDS) + data[end:]
        case 4:
            return data[:at] + rng.randbytes(end - at or 1) + data[end:]
        case _:
            return data[:at]


def _json_of(data: bytes) -> Any:
    if data[:1] not in (b"{", b"["):
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _odd_somewhere(value: Any, rng: random.Random, depth: int = 0) -> Any:
    """The same with one node that is another, missing, twice there or under another name."""
    if depth == JSON_DEPTH_MAX or not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(ODD)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        match rng.randrange(5):
            case 0:
                return value[:at] + value[at + 1 :]
            case 1:
                return value[: at + 1] + value[at:]
            case _:
                return [*value[:at], _odd_somewhere(value[at], rng, depth + 1), *value[at + 1 :]]
    name = rng.choice(sorted(value))
    rest = {other: one for other, one in value.items() if other != name}
    match rng.randrange(6):
        case 0:
            return rest
        case 1:
            return rest | {name + rng.choice(("x", "", "\x00")): value[name], "more": rng.choice(ODD)}
        case _:
            return rest | {name: _odd_somewhere(value[name], rng, depth + 1)}
