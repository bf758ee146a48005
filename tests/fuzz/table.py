"""Every parser that meets the outside, by name: a new one is one line in one of the three lists."""

from __future__ import annotations

from typing import Final

from tests.fuzz import chain_targets, core_targets, web_targets
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {**core_targets.TARGETS, **web_targets.TARGETS, **chain_targets.TARGETS}

assert len(TARGETS) == sum(len(one.TARGETS) for one in (core_targets, web_targets, chain_targets))
