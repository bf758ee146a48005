"""Verifiers that others wrote: two packages in each of two languages, four implementations of one signature.

`svix` is held at the last versions that verify with code of their own; later ones call `standardwebhooks`.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import standardwebhooks
import svix

from tests.contract.outside import Delivery

NODE_PACKAGES: Final = {"standardwebhooks": "1.1.1", "svix": "1.82.0"}
VERIFY_MAX_S: Final = 60


class Asked(NamedTuple):
    """Somebody who has `secret` was given these headers with these bytes."""

    secret: str
    headers: dict[str, str]
    raw: bytes


Verify = Callable[[Sequence[Asked]], list[str | None]]
"""For each, the id of the event that was accepted, or None where it was refused."""


def genuine(secret: str, delivery: Delivery) -> Asked:
    """The delivery as it came."""
    return Asked(secret, dict(delivery.headers), delivery.raw)


def forged(secret: str, delivery: Delivery) -> list[Asked]:
    """The delivery with one thing changed in each: its bytes, its id, its time, its signature."""
    headers = dict(delivery.headers)
    later = str(int(headers["webhook-timestamp"]) + 1)
    version, _, digest = headers["webhook-signature"].partition(",")
    swapped = f"{version},{digest.swapcase()}"
    return [
        Asked(secret, headers, delivery.raw + b" "),
        Asked(secret, headers, delivery.raw.replace(b'"live":false', b'"live":true')),
        Asked(secret, {**headers, "webhook-id": headers["webhook-id"] + "0"}, delivery.raw),
        Asked(secret, {**headers, "webhook-timestamp": later}, delivery.raw),
        Asked(secret, {**headers, "webhook-signature": swapped}, delivery.raw),
    ]


def python_standardwebhooks(asked: Sequence[Asked]) -> list[str | None]:
    """Ask the PyPI package `standardwebhooks`."""
    return [
        _verdict(standardwebhooks.Webhook(one.secret).verify, one, standardwebhooks.WebhookVerificationError)
        for one in asked
    ]


def python_svix(asked: Sequence[Asked]) -> list[str | None]:
    """Ask the PyPI package `svix`."""
    return [_verdict(svix.Webhook(one.secret).verify, one, svix.WebhookVerificationError) for one in asked]


def _verdict(verify: Callable[..., Any], one: Asked, refusal: type[Exception]) -> str | None:
    try:
        return str(verify(one.raw, one.headers)["id"])
    except refusal:
        return None


def node_verifier(package: str, folder: Path) -> Verify:
    """Ask an npm package that `from_npm` put into `folder`."""

    def verify(asked: Sequence[Asked]) -> list[str | None]:
        lines = [
            json.dumps({"secret": a.secret, "headers": a.headers, "body": base64.b64encode(a.raw).decode()})
            for a in asked
        ]
        script = Path(__file__).with_name("verify.mjs")
        done = subprocess.run(
            ["node", str(script), str(folder), package],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=VERIFY_MAX_S,
            check=True,
        )
        verdicts = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(verdicts) == len(asked)
        return [verdict["id"] if verdict["ok"] else None for verdict in verdicts]

    return verify
