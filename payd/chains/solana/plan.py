"""What a build action stands for: how an amount is divided. Everything else is decided when it is fetched.

The data says nothing that passes, so that asking for options again gives the same option.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final

import msgspec

from payd.core.errors import InvalidParams

# Three numbers and an address, in base64.
DATA_CHARS_MAX: Final = 400

NOT_OURS: Final = "This is not the data of the option's build action. Send it as it was handed out."


Units = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,20}$")]


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an amount is divided, in smallest units as text.

    Attributes:
        amount: What leaves the buyer.
        fee: The operator's part of it.
        operator: Who gets the fee, base58; None: there is none.
        version: Of this shape.
    """

    amount: Units
    fee: Units = "0"
    operator: str | None = None
    version: int = 1


def write_plan(amount: int, fee: int, operator: str | None) -> str:
    """The data of a build action, base64url of JSON; without a fee nobody is named for it."""
    plan = Plan(str(amount), str(fee), operator if fee else None)
    return base64.urlsafe_b64encode(msgspec.json.encode(plan)).decode().rstrip("=")


def read_plan(data: str) -> Plan:
    """The plan in the data of a build action.

    Raises:
        InvalidParams: There is none in it.
    """
    if not data.isascii() or len(data) > DATA_CHARS_MAX:
        raise InvalidParams(NOT_OURS)
    try:
        padded = data + "=" * (-len(data) % 4)
        plan = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=Plan)
    except (binascii.Error, ValueError) as error:
        raise InvalidParams(NOT_OURS) from error
    return plan
