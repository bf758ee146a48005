"""Every text is said somewhere, nothing is said that has no text, and pages have none of their own."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from payd.core.status import Status
from payd.web.checkout.view import MOVES
from payd.web.checkout.words import FOR_SCRIPTS, WORDS, say

PACKAGE = files("payd.web.checkout")
TEMPLATES = {file.name: file.read_text() for file in (PACKAGE / "templates").iterdir()}
# What shops load (payd.js) brings its words itself.
SPEAKING = ("checkout.js", "pay.js", "wallets.js")
SCRIPTS = [file.read_text() for file in (PACKAGE / "static").iterdir() if file.name in SPEAKING]


def test_values_are_put_in_as_they_are() -> None:
    assert say("succeeded.body", merchant="<b>{x}</b>") == "<b>{x}</b> has your payment."


def test_a_text_that_is_not_there_is_a_bug() -> None:
    with pytest.raises(KeyError):
        say("nothing.of.the.kind")
    with pytest.raises(KeyError):
        say("succeeded.body")


def test_every_status_and_move_has_its_words() -> None:
    assert {f"{status.value}.heading" for status in Status} <= WORDS.keys()
    assert {f"move.{move}" for move in MOVES} <= WORDS.keys()


def test_templates_and_scripts_say_only_what_is_there() -> None:
    said = {key for text in TEMPLATES.values() for key in re.findall(r"t\('([^']+)'", text)}
    assert said <= WORDS.keys()
    assert len(said) > 20
    text = "".join(SCRIPTS)
    scripted = set(re.findall(r"words(?:\.(\w+)|\['([\w.]+)'\])", text))
    said = {one or other for one, other in scripted} - {"0"}
    warned = set(re.findall(r"(?:warn|is|WalletError)\((?:[\w.]+ \? )?'(\w+)'", text))
    warned |= set(re.findall(r"warn\([\w.]+ \? '\w+' : '(\w+)'\)", text))
    assert said | warned | {f"{kind}.body" for kind in warned} <= FOR_SCRIPTS.keys()
    assert {"offline", "refused", "rejected", "busy", "quote_expired", "no_options"} <= warned
    silent = FOR_SCRIPTS.keys() - said - warned - {f"{kind}.body" for kind in warned}
    assert {key for key in silent if not key.startswith("left.")} == set()


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_has_no_text_of_its_own(name: str) -> None:
    html = re.sub(r"{%.*?%}|{{.*?}}", "", TEMPLATES[name])
    bare = re.sub(r"<[^>]*>", " ", html)
    assert re.findall(r"[A-Za-z]{2,}", bare) == []
