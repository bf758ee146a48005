"""What other clocks say of ours: a vote each, so that none alone decides.

Source: DESIGN.md, "10. Live realm"; DESIGN.md, "7. Events and webhooks".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# By a clock that is right the newest block is not older, but on a chain that stands; nor is it of the future.
FITS_S: Final = 60.0


def agreed_skew_s(skews_s: Iterable[float]) -> float | None:
    """Seconds that our clock is ahead, as the others together see it; None when there are none.

    The median, so that it takes half of them to raise a false alarm. Of the two in the middle of an even
    number the one nearer to zero holds, and zero when they disagree on the direction: with two, one liar can
    hide an error of our clock, and cannot make one up. A single one is believed.

    Args:
        skews_s: Seconds that our clock is ahead of each.
    """
    skews = sorted(skews_s)
    if not skews:
        return None
    low, high = skews[(len(skews) - 1) // 2], skews[len(skews) // 2]
    return max(low, min(high, 0.0))


def skew_to_node_s(now_s: float, node_s: float | None, made_s: int) -> float | None:
    """Seconds that our clock is ahead of a node's; None where the node has no say.

    It has one where its newest block fits its clock. Else its clock is wrong, as ours is where both are of
    one machine, or it lags. Of a node that tells no time, a block from our future shows that we are behind.

    Args:
        now_s: By our clock, Unix seconds.
        node_s: By the node's, at the same moment; None: it does not tell.
        made_s: When the newest block that it has was made.
    """
    if node_s is None:
        return now_s - made_s if made_s > now_s else None
    return now_s - node_s if abs(node_s - made_s) <= FITS_S else None


def side(skew_s: float) -> str:
    """`ahead` or `behind`."""
    return "ahead" if skew_s > 0 else "behind"
