"""What refusals of the API call things, as the labels of the pages do: who filled in a form has sent no JSON.

Source: DESIGN.md, "11. Pages".
"""

from __future__ import annotations

import re
from typing import Final

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

# Each field that a message names stands at its beginning, or behind the words about another.
_NAMED: Final = re.compile(r"(?:(?<=^)|(?<=; ))([a-zA-Z]+(?:\[\d+\])?(?:\.[a-z]+)?)(?=: )")
_PLACE: Final = re.compile(r"collect\[(\d+)\]\.(\w+)")
_TWICE: Final = re.compile(r"A settlement for \S+ exists\. Change its destination with PUT instead\.")
_CHANGE_IT: Final = "This asset has an address already. Change that one on the merchant's page."


def as_labels(message: str) -> str:
    """A message of the API for a page: fields by their labels, and no way that only a program has."""
    return _NAMED.sub(_label, _TWICE.sub(_CHANGE_IT, message)).replace(".; ", ". ")


def _label(found: re.Match[str]) -> str:
    field = found[1]
    place = _PLACE.fullmatch(field)
    if place is not None and place[2] in _QUESTION:
        return f"Question {int(place[1]) + 1}, {_QUESTION[place[2]]}"
    return _FIELDS.get(field, field)
