"""A relay job: a value that the store gives back as it was taken."""

from __future__ import annotations

import msgspec
import pytest

from payd.core.relay import RelayJob


def test_a_job_can_not_be_changed_after_a_buyer_signed_it() -> None:
    job = RelayJob("eip155:8453", "eip155:8453:0xbuyer", "0x" + "11" * 20, b"call", 1_780_000_000)

    with pytest.raises(AttributeError):
        job.target = "0x" + "22" * 20  # type: ignore[misc]
    assert msgspec.structs.astuple(job)[3] == b"call"
