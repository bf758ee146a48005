"""The examples: made by what answers requests, the same every time."""

from __future__ import annotations

import msgspec

from payd.core.ids import is_id
from payd.core.version import VERSIONS
from payd.web.errors import ErrorBody, Problem
from payd.web.openapi.document import bodies
from payd.web.openapi.story import examples, feed_message, made_id


def test_there_are_examples_of_every_body_and_of_nothing_else() -> None:
    for version in VERSIONS:
        assert set(map(str, examples(version))) == {
            str(one) for one in bodies() if one not in (ErrorBody, Problem)
        }


def test_ids_look_like_real_ones_and_stay() -> None:
    assert is_id(made_id("evt_"), "evt_")
    assert made_id("evt_") == made_id("evt_") != made_id("msg_")


def test_the_feed_shows_a_payment_that_is_over() -> None:
    assert msgspec.to_builtins(feed_message())["isFinal"] is True
