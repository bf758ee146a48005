"""A merchant that asks its buyers for details, and what they answer."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from tests.shop import SIGNATURE, Got, Shop

FIELDS: Final[list[dict[str, Any]]] = [
    {"id": "fullName", "type": "text", "name": "Full name", "required": True},
    {"id": "dob", "type": "date", "name": "Date of birth", "required": True},
    {"id": "note", "type": "text", "name": "Note", "required": False},
    {"id": "tosConfirmed", "type": "checkbox", "name": "I agree to the terms", "required": True},
]
VALUES: Final = {"fullName": "Ada Lovelace-Byron", "dob": "1815-12-10", "tosConfirmed": "true"}
ANSWERS: Final = {"fields": [{"id": name, "value": value} for name, value in VALUES.items()]}
SHOWN: Final = [
    {"id": "fullName", "name": "Full name", "value": "Ada Lovelace-Byron"},
    {"id": "dob", "name": "Date of birth", "value": "1815-12-10"},
    {"id": "tosConfirmed", "name": "I agree to the terms", "value": "true"},
]
SECRET: Final = "Lovelace-Byron"


async def ask_for(shop: Shop, fields: list[dict[str, Any]] | None = None) -> None:
    """Have the merchant ask for these."""
    body = {"collect": FIELDS if fields is None else fields}
    changed = await shop.call("PATCH", f"/v1/merchants/{shop.merchant_id}", body)
    assert changed.status == 200, changed.body


async def confirm(shop: Shop, payment: str, option: str, answers: Any = None, data: str = SIGNATURE) -> Got:
    """A wallet's results, with what its own form asked."""
    body = {"optionId": option, "results": [{"type": "walletRpc", "data": [data]}]}
    if answers is not None:
        body["collectedData"] = answers
    return await shop.call("POST", f"/v1/gateway/payment/{payment}/confirm", body)


async def shown(shop: Shop, payment: str) -> Any:
    """What the merchant sees of the answers."""
    return (await shop.call("GET", f"/v1/payments/{payment}")).body["collectedData"]


def path_of(url: str) -> str:
    """The path and the query of a link."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"
