"""What an endpoint's actor keeps of what it looked ahead to."""

from __future__ import annotations

from payd.actors.lane import LOOK_AHEAD, _Queue
from payd.store.deliveries import Head


def heads(*ids: str, at_ms: int = 0, payment_id: str | None = None, attempts: int = 0) -> list[Head]:
    return [Head(name, payment_id or f"pay of {name}", attempts, at_ms) for name in ids]


def test_the_look_ahead_leaves_out_what_is_claimed_and_what_is_not_due() -> None:
    queue = _Queue()
    queue.fill([*heads("a", "b", "c"), *heads("d", "e", at_ms=50)], 10, {"b"}, LOOK_AHEAD)

    assert [head.id for head in queue.heads] == ["a", "c"]
    assert queue.next_due_ms == 50
    assert not queue.stale


def test_a_full_look_ahead_may_hide_more() -> None:
    queue = _Queue()
    queue.fill(heads("a", "b"), 10, (), 2)

    assert queue.stale


def test_a_later_event_of_a_payment_is_passed_over_and_a_retry_is_not() -> None:
    queue = _Queue()
    first, retry, other = (
        heads("first", payment_id="pay_1"),
        heads("retry", payment_id="pay_1", attempts=1),
        heads("other", payment_id="pay_2"),
    )
    queue.fill([*first, *retry, *other], 0, (), LOOK_AHEAD)

    picked = [queue.pick({"pay_1"}, ()) for _ in range(3)]
    assert [head and head.id for head in picked] == ["retry", "other", None]
    left = queue.pick(set(), ())
    assert left is not None
    assert left.id == "first"
