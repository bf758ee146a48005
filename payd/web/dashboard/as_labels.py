"""What refusals of the API call things, as the labels of the pages do: who filled in a form has sent no JSON.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import re
from typing import Final

from payd.core.errors import PaydError, SettlementAssetConflict

_FIELDS: Final = {
    "merchantName": "Name",
    "merchantEmail": "E-mail",
    "status": "Status",
    "iconUrl": "Logo from the web",
    "checkoutOrigins": "Origins",
    "collect": "Questions",
    "settlements[0].asset": "What is paid with",
    "settlements[0].destination": "Address",
    "referenceId": "Reference",
    "amount.unit": "Currency",
    "amount.value": "Amount",
    "txId": "Transaction id",
    "note": "Note",
}
_QUESTION: Final = {"id": "Id", "name": "What is asked", "type": "Kind"}
_PLACE: Final = re.compile(r"collect\[(\d+)\]\.(\w+)")
_CHANGE_IT: Final = "This asset has an address already. Change that one on the merchant's page."


def as_labels(refusal: PaydError) -> str:
    """What a page says of a refusal: fields by their labels, and no way that only a program has."""
    if isinstance(refusal, SettlementAssetConflict):
        return _CHANGE_IT
    field = str(refusal.details.get("field"))
    if refusal.message.startswith(f"{field}: "):
        return _label(field) + refusal.message.removeprefix(field)
    if not refusal.issues:
        return refusal.message
    said = "; ".join(f"{_label(issue.field)}: {issue.message}" for issue in refusal.issues)
    return said.replace(".; ", ". ")


def _label(field: str) -> str:
    place = _PLACE.fullmatch(field)
    if place is not None and place[2] in _QUESTION:
        return f"Question {int(place[1]) + 1}, {_QUESTION[place[2]]}"
    return _FIELDS.get(field, field)
