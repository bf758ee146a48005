"""`payd sim`: a verb is typed, and the payment moves."""

from __future__ import annotations

from typing import Any

import pytest

from payd.cli.sim import VERBS
from tests.terminal import Terminal

MOVED = {"paymentId": "pay_t1", "referenceId": "R-1", "status": "succeeded", "settlement": {"settled": True}}


@pytest.mark.parametrize(("verb", "to"), VERBS.items())
def test_a_verb_and_its_state_mean_the_same(
    payd: Terminal, answers: dict[str, Any], verb: str, to: str
) -> None:
    answers["payment.simulate"] = MOVED
    assert "succeeded, settled" in payd("sim", "pay_t1", verb).output
    assert payd.json("sim", "pay_t1", to, "--reason", "so") == MOVED
    asked = [args for _, args in answers["asked"]]
    plain = {"mode": "test", "id": "pay_t1", "to": to}
    assert asked == [plain, {**plain, "reason": "so"}]


def test_help_has_an_example_and_mistakes_are_told(begun: Terminal) -> None:
    assert "payd sim pay_t… succeed" in begun("sim", "--help").output
    assert "succeed" in begun.error("sim", "pay_t1", "explode", code=2)
    assert "payd serve" in begun.error("sim", "pay_t1", "succeed", code=3)
