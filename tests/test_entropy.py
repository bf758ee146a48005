"""Randomness comes from one source, which a test can replace."""

from __future__ import annotations

import threading

from payd.core.ids import ENTROPY_BYTES, is_id
from payd.entropy import SystemEntropy, new_id, system_entropy


def test_two_ids_of_the_same_moment_differ() -> None:
    first, second = new_id("mrch_", 1), new_id("mrch_", 1)
    assert is_id(first, "mrch_")
    assert first != second


def test_the_same_bytes_make_the_same_id() -> None:
    assert new_id("evt_", 5, bytes) == new_id("evt_", 5, bytes)
    assert new_id("evt_", 5, bytes) != new_id("evt_", 6, bytes)


def test_the_system_gives_as_many_bytes_as_were_asked_for() -> None:
    assert len(system_entropy(32)) == 32


def test_no_two_threads_are_given_the_same_bytes() -> None:
    entropy = SystemEntropy()
    given: list[list[bytes]] = [[], [], [], []]
    threads = [
        threading.Thread(target=lambda out=out: out.extend(entropy(ENTROPY_BYTES) for _ in range(5000)))
        for out in given
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    everything = [chunk for out in given for chunk in out]
    assert len(everything) == len(set(everything)) == 20_000
    assert {len(chunk) for chunk in everything} == {ENTROPY_BYTES}
