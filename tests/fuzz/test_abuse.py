"""Inputs that are made to take time or memory: each is read or refused in time that grows as the input does.

The bound is the processor's time, not a clock: what grows with the square takes ten times as much.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import pkgutil
import re
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import payd
from payd.core.errors import InvalidParams, PaydError
from payd.core.ids import make_id
from payd.web.call import Request, decode_json
from payd.web.cursor import decode_cursor, encode_cursor
from payd.web.schema import CreatePayment
from tests.fuzz.table import TARGETS
from tests.fuzz.target import is_refused

SIZE: Final = 65_536
# A pass over so much takes milliseconds; a pass for each character of it takes ten seconds and more.
BUDGET_S: Final = 3.0

# Quadratic patterns, and how many characters get to them: who calls them looks at the length first.
BOUNDED: Final = {
    "payd.core.password._AROUND": 254,
}
# What the operator alone writes, and who reads it takes a line at a time.
OWN_FILES: Final = ("payd.toml",)


class TooLong(Exception):
    """The processor was at it for longer than anything linear takes."""


@contextlib.contextmanager
def in_linear_time(budget_s: float = BUDGET_S) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, budget_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@cache
def patterns() -> dict[str, tuple[re.Pattern[Any], frozenset[str]]]:
    """Every pattern of the house, by module and name or by its text, and how it is asked."""
    found: dict[str, tuple[re.Pattern[Any], frozenset[str]]] = {}
    for info in pkgutil.walk_packages(payd.__path__, "payd."):
        if info.name == "payd.__main__":
            continue
        module = importlib.import_module(info.name)
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        ]
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                asked = {call.func.attr for call in calls if ast.unparse(call.func.value) == name}  # type: ignore[attr-defined]
                found[f"{info.name}.{name}"] = value, frozenset(asked) or frozenset({"fullmatch"})
        for call in calls:
            if ast.unparse(call.func.value) == "re" and isinstance(call.args[0], ast.Constant):  # type: ignore[attr-defined]
                text = call.args[0].value
                found[f"{info.name} {text!r}"] = re.compile(text), frozenset({call.func.attr})  # type: ignore[attr-defined]
    return found


def hard_texts(pattern: re.Pattern[Any], size: int) -> Iterator[Any]:
    """Texts that a pattern likes for long, and then not: what it names again and again, and an odd end."""
    text = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    words = {
        *re.findall(r"[A-Za-z0-9<>=:/@._'` $-]{1,20}", text),
        "a",
        "0",
        ".",
        "@",
        " ",
        "a.",
        "a-",
        "0a",
        "-",
        "A:",
        "\n",
    }
    for word in sorted(words):
        for end in ("", "\x00", "@"):
            hard = (word * (size // len(word) + 1))[:size] + end
            for one in (hard, "a@" + hard, text[:8] + hard):
                yield one.encode() if isinstance(pattern.pattern, bytes) else one


def ask(pattern: re.Pattern[Any], how: frozenset[str], text: Any) -> None:
    for method in how:
        match method:
            case "compile" | "escape":
                pattern.fullmatch(text)
            case "sub":
                pattern.sub(type(text)(), text)
            case "split":
                pattern.split(text, 4)
            case "findall" | "finditer":
                pattern.findall(text)
            case "match":
                pattern.match(text)
            case "search":
                pattern.search(text)
            case _:
                pattern.fullmatch(text)


def _ask_all(pattern: re.Pattern[Any], how: frozenset[str], size: int) -> None:
    for text in hard_texts(pattern, size):
        ask(pattern, how, text)


def test_every_pattern_takes_time_as_its_text_is_long() -> None:
    found = patterns()
    assert len(found) > 80
    assert BOUNDED.keys() <= found.keys()
    slow = []
    for name, (pattern, how) in found.items():
        try:
            with in_linear_time():
                _ask_all(pattern, how, BOUNDED.get(name, SIZE // 4))
        except TooLong:
            slow.append(name)
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"[^\s@]+@[^\s@]+\.[^\s@]+"])
def test_a_pattern_that_goes_back_and_forth_is_noticed(pattern: str) -> None:
    slow = re.compile(pattern)
    with pytest.raises(TooLong), in_linear_time(0.3):
        _ask_all(slow, frozenset({"fullmatch"}), SIZE)


def hard_inputs(seed: bytes) -> Iterator[bytes]:
    """As much as a request may bring: depth, digits, names, and the input's own pieces again and again."""
    yield (seed * (SIZE // max(1, len(seed)) + 1))[:SIZE]
    yield seed[:-1] + (seed[-2:-1] or b"a") * SIZE
    yield b"[" * SIZE
    yield b'{"a":' * (SIZE // 5)
    yield b'{"x":' + b"9" * 100_000 + b"}"
    yield b"9" * 100_000
    yield b"{" + b",".join(b'"%d":%d' % (at, at) for at in range(6_000)) + b"}"
    yield b"=&,;:.-/ @" * (SIZE // 10)


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in OWN_FILES])
def test_a_large_input_takes_linear_time_and_no_more_stack_than_there_is(name: str) -> None:
    target = TARGETS[name]
    read = 0
    with in_linear_time():
        for data in hard_inputs(target.seeds[0]):
            read += is_refused(target, data) in (True, False)
    assert read == 8


@pytest.mark.parametrize(
    "body", [b"[" * SIZE, b'{"amount":' * 6000, b'{"expiresAt":' + b"9" * 100_000 + b"}", b"9" * 100_000]
)
def test_bombs_of_json_are_refused_as_any_other_body(body: bytes) -> None:
    with in_linear_time(), pytest.raises(PaydError) as refused:
        decode_json(Request("POST", "/v1/payments", body=body), CreatePayment)
    assert refused.value.code in ("invalid_params", "params_validation")


@pytest.mark.parametrize("digits", [19, 20, 4300, 4301, 100_000])
def test_a_number_of_any_length_is_a_number_or_refused(digits: int) -> None:
    body = msgspec.json.encode(
        {"referenceId": "A", "amount": {"unit": "iso4217/EUR", "value": "1"}, "expiresAt": 0}
    )
    long = body.replace(b'"expiresAt":0', b'"expiresAt":' + b"9" * digits)
    with in_linear_time(), contextlib.suppress(PaydError):
        assert decode_json(Request("POST", "/", body=long), CreatePayment).expires_at == int("9" * digits)


def test_a_cursor_with_any_other_character_is_refused_or_leads_to_another_place() -> None:
    cursor = encode_cursor(1_779_098_340_000, make_id("evt_", 1, bytes(26)))
    right = decode_cursor(cursor, (int, str))
    for at in range(len(cursor)):
        for other in "A-_=\x00é":
            bent = cursor[:at] + other + cursor[at + 1 :]
            with contextlib.suppress(InvalidParams):
                read = decode_cursor(bent, (int, str))
                assert read != right or bent == cursor or other in "A-_"
                assert [type(one) for one in read] == [int, str]
