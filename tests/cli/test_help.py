"""`payd help` shows what `--help` shows, for who does not think of that."""

from __future__ import annotations

import pytest

from tests.terminal import Terminal


@pytest.mark.parametrize("words", [(), ("webhook",), ("webhook", "recover"), ("key", "create")], ids=" ".join)
def test_it_is_the_help_of_the_command(payd: Terminal, words: tuple[str, ...]) -> None:
    assert payd("help", *words).output == payd(*words, "--help").output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serve", "now"), "payd serve has no command 'now'."),
        (("nothing",), "No such command 'nothing'."),
        (("webhook", "--json"), "--json is for payd help exit-codes."),
    ],
)
def test_what_is_not_there_is_wrong_usage(payd: Terminal, words: tuple[str, ...], said: str) -> None:
    assert said in payd.error("help", *words, code=2)
