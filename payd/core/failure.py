"""Why a payment ended unpaid: each reason as its merchant reads it, and of which kind it is for its buyer.

A reason is stored with the payment in English. Who speaks to buyers goes by the kind, in any language.

Source: DESIGN.md, "10. Live realm"; SPEC.md, "States and transitions".
"""

from __future__ import annotations

from typing import Final, Literal

SIMULATED: Final = "Simulated failure"
MISALIGNED: Final = "The wallet's results do not match the actions in length and order."
TAKEN_BACK: Final = "The buyer cancelled what was signed, on the blockchain."
REVERTED: Final = "The buyer's transaction was reverted on the blockchain; nothing was paid."
PAID_NOTHING: Final = "The buyer's transaction did not pay the merchant."
REPLACED: Final = "The buyer's wallet replaced the transaction by another one; nothing was paid."

NOT_BROUGHT: Final = "It could not be brought to the blockchain: "
"""What such a reason begins with; what kept it from the chain follows."""

TOO_LATE: Final = "Its time was over before it could be sent."
"""One of those; the buyer's own wallet, or whoever else has the signature, may have brought it in time. It is
stored, and read back as such: its words stay."""

REFUSED: Final = "The transaction failed on the blockchain: "
"""What such a reason begins with; the chain's own error follows, in words."""

NO_FUNDS: Final = "the buyer's account does not hold enough"
"""That error, where it was for lack of money."""

DECLINED: Final = "declined_user"
BROADCAST_FAILED: Final = "broadcast_failed"
"""The codes of what ends unpaid on a chain: the buyer did not want it, or nothing of it arrived."""

Kind = Literal[
    "simulated",
    "misaligned",
    "taken_back",
    "replaced",
    "reverted",
    "no_funds",
    "unpaid",
    "not_brought",
    "declined",
    "broadcast",
]

_KINDS: Final[dict[str, Kind]] = {
    SIMULATED: "simulated",
    MISALIGNED: "misaligned",
    TAKEN_BACK: "taken_back",
    REPLACED: "replaced",
    REVERTED: "reverted",
    PAID_NOTHING: "unpaid",
}


def kind_of(reason: str, code: str) -> Kind:
    """The kind of a stored failure; of a reason in somebody's own words, by its code alone."""
    if reason in _KINDS:
        return _KINDS[reason]
    if reason.startswith(NOT_BROUGHT):
        return "not_brought"
    if reason.startswith(REFUSED):
        return "no_funds" if NO_FUNDS in reason else "reverted"
    return "declined" if code == DECLINED else "broadcast"
