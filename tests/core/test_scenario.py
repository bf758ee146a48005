"""The table of scenarios is whole: names, stories and the events that end them."""

from __future__ import annotations

import pytest

from payd.core.endpoint import EVENT_TYPES
from payd.core.fault import FAULT_KINDS
from payd.core.scenario import BY_EVENT, SCENARIOS, Scenario, find_scenario


def test_every_type_of_event_ends_or_is_in_a_scenario() -> None:
    assert BY_EVENT.keys() == set(EVENT_TYPES)
    for event_type in EVENT_TYPES:
        found = find_scenario(event_type)
        assert found is not None
        assert event_type in [told.type for told in found.tells]


def test_names_are_unique_and_found() -> None:
    assert len({one.name for one in SCENARIOS}) == len(SCENARIOS)
    assert all(find_scenario(one.name) is one for one in SCENARIOS)
    assert find_scenario("nothing") is None


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_a_scenario_begins_with_a_payment_and_tells_versions_without_a_gap(scenario: Scenario) -> None:
    assert scenario.steps[0].verb == "create"
    assert [told.version for told in scenario.tells] == list(range(len(scenario.tells)))
    faults = [step.what for step in scenario.steps if step.verb == "fault"]
    assert set(faults) <= set(FAULT_KINDS)
    assert scenario.needs_endpoint is bool(faults)
    odd = [told for told in scenario.tells if told.note or told.requests != 1]
    assert bool(odd) is bool(faults)
