"""The truths about changes can fail: each finds what it is there to find."""

from __future__ import annotations

from typing import Any, Final, cast

from tests.crash.changes import Changes, Offered
from tests.crash.live_truths import (
    Handed,
    LiveAftermath,
    nobody_is_offered_what_a_merchant_had_changed_before,
    what_buyers_were_offered_is_what_was_handed_out,
)

ASSET: Final = "eip155:1/slip44:60"
OLD, NEW = "0x01", "0x02"


class Left:
    """What these truths look at."""

    def __init__(self, *offers: Offered, wallet: str | None = NEW) -> None:
        """The merchant went from the old wallet to another in the fifth second."""
        self.changes = Changes(offers=list(offers))
        course = self.changes.course("mrch_1", ASSET)
        course.first = OLD
        course.change(wallet, 5.0)
        course.done(6.0)
        self.handed = [Handed(ASSET, one.wallet, 1, 0, 9) for one in offers if one.wallet]

    def wallets(self, _payment_id: str, _asset: str) -> set[str]:
        """Where it was handed out."""
        return {one.wallet for one in self.handed}


def offered(wallet: str, asked_s: float, told_s: float) -> Offered:
    """To a buyer of one payment."""
    return Offered("pay_1", "mrch_1", ASSET, wallet, asked_s, told_s)


def changed_before(left: Left) -> bool:
    """Whether somebody was offered what had been changed before."""
    found: Any = nobody_is_offered_what_a_merchant_had_changed_before(cast(LiveAftermath, left))
    return bool(found)


def test_an_old_wallet_is_offered_before_and_while_it_is_changed_and_no_more_after() -> None:
    assert not changed_before(Left(offered(OLD, 1.0, 2.0)))
    assert not changed_before(Left(offered(OLD, 5.5, 5.6)))
    assert not changed_before(Left(offered(NEW, 5.5, 5.6)))
    assert changed_before(Left(offered(OLD, 6.1, 6.2)))
    assert changed_before(Left(offered(NEW, 1.0, 2.0)))


def test_who_was_offered_a_wallet_is_offered_it_again_and_no_other() -> None:
    assert not changed_before(Left(offered("", 1.0, 2.0), offered(OLD, 7.0, 8.0)))
    assert changed_before(Left(offered("", 1.0, 2.0), offered(NEW, 7.0, 8.0)))


def test_what_was_removed_is_not_offered_again() -> None:
    assert changed_before(Left(offered(OLD, 1.0, 2.0), offered(OLD, 7.0, 8.0), wallet=None))


def test_a_closed_merchant_offers_nothing() -> None:
    left = Left(offered(NEW, 9.0, 9.5))
    course = left.changes.open("mrch_1")
    course.change(False, 7.0)
    course.done(8.0)

    assert changed_before(left)


def test_what_was_told_is_what_is_stored() -> None:
    left = Left(offered(OLD, 1.0, 2.0))
    assert what_buyers_were_offered_is_what_was_handed_out(cast(LiveAftermath, left)) == []

    left.handed = [Handed(ASSET, NEW, 1, 0, 9)]

    assert what_buyers_were_offered_is_what_was_handed_out(cast(LiveAftermath, left))
