"""An answer that does not hold together says which transaction stands in the way, if one does."""

from __future__ import annotations

from payd.chains.unread import Unread


def test_it_says_what_is_wrong_and_with_what() -> None:
    assert (str(Unread("no receipt", "0x1")), Unread("no receipt", "0x1").tx_id) == ("no receipt", "0x1")
    assert Unread("the node lags").tx_id is None
