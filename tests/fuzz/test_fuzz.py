"""Whatever comes from outside is understood, or refused in the parser's own documented way."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import web_targets
from tests.fuzz.mutation import bent
from tests.fuzz.table import TARGETS
from tests.fuzz.target import Target, is_refused

WEB = Path(__file__).parents[2] / "payd" / "web"

# Deriving a key from a password, and reading a configuration again line by line, take their time.
EXAMPLES = {"keystore": 30, "payd.toml": 40}
EXAMPLES_OF_MOST = 60


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read_or_refused(name: str) -> None:
    refused = [is_refused(TARGETS[name], seed) for seed in TARGETS[name].seeds]
    assert len(refused) == len(TARGETS[name].seeds) > 0


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_parser(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=EXAMPLES.get(name, EXAMPLES_OF_MOST), database=None)
    @given(st.sampled_from(target.seeds), st.integers(0, 2**32), st.binary(max_size=64))
    def breaks_nothing(seed: bytes, how: int, noise: bytes) -> None:
        assert is_refused(target, bent(seed, how)) in (True, False)
        assert is_refused(target, noise) in (True, False)

    breaks_nothing()


@pytest.mark.parametrize(
    "said",
    [
        KeyError("x"),
        TypeError(),
        RecursionError(),
        UnicodeError(),
        OverflowError(),
        MemoryError(),
        AssertionError(),
    ],
)
def test_what_no_parser_may_raise_is_never_taken_for_a_refusal(said: Exception) -> None:
    def run(_: bytes) -> None:
        raise said

    with pytest.raises(type(said)):
        is_refused(Target(run, (b"",), (Exception,)), b"")


def bodies_of(tree: ast.Module) -> set[str]:
    """Every type that a handler asks the body of a request for."""
    return {
        ast.unparse(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func) == "call.json"
        and node.args
    }


def test_every_body_that_the_api_reads_is_fuzzed() -> None:
    read: set[str] = set()
    for path in WEB.rglob("*.py"):
        read |= bodies_of(ast.parse(path.read_text(encoding="utf-8")))
    fuzzed: list[Any] = list(web_targets.BODIES)
    assert read == {web_targets.name_of(kind).replace("typing.", "") for kind in fuzzed}
