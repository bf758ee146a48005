"""A submission is what a node takes, named before anything is sent."""

from __future__ import annotations

import pytest

from payd.core.submission import Submission


def test_a_submission_cannot_be_changed() -> None:
    made = Submission("solana:x", "solana:x:buyer", "tx", b"raw", 7)

    with pytest.raises(AttributeError):
        made.raw = b"other"  # type: ignore[misc]
