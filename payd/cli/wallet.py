"""A buyer's wallet, for `payd demo`: asks for options, does what the actions say, confirms with the results.

Source: SPEC.md, "Payment option, action and result (gateway)"; DESIGN.md, "9. Test realm".
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
import trio

from payd.cli.failure import Refused
from payd.cli.show import amount_words
from payd.net.http import Client, Reply, Target

# The published buyer whose payments are approved.
BUYER: Final = "0x0000000000000000000000000000000000000001"
CONFIRM_POLL_MS: Final = 10_000
DEADLINE_S: Final = 30.0
BODY_BYTES_MAX: Final = 4 << 20


class Rest:
    """A program that speaks to payd's API with one set of credentials."""

    def __init__(self, client: Client, base_url: str, credentials: dict[str, str]) -> None:
        self._client = client
        self._base_url = base_url
        self._credentials = credentials

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The decoded answer.

        Args:
            method: Upper case.
            path: With its query.
            body: Sent as JSON unless None.
            headers: With `_` for `-`.

        Raises:
            Refused: The answer is no 2xx, or there was none.
        """
        sent = {**self._credentials, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body is not None:
            sent["content-type"] = "application/json"
        reply = await self._client.send(
            method,
            Target.of(self._base_url + path),
            sent.items(),
            b"" if body is None else msgspec.json.encode(body),
            deadline_s=DEADLINE_S,
            body_bytes_max=BODY_BYTES_MAX,
        )
        if reply.status is None:
            raise Refused(
                f"{method} {self._base_url}{path}: {reply.error_class} ({reply.detail}). It begins"
                " with the server's base_url; `payd doctor` looks at the way there."
            )
        return _decoded(method, path, reply.status, reply)


def _decoded(method: str, path: str, status: int, reply: Reply) -> Any:
    if not 200 <= status < 300:
        raise Refused(f"{method} {path} answered {status}: {reply.body[:500].decode(errors='replace')}")
    return msgspec.json.decode(reply.body) if reply.body else None


async def close_shop(shop: Rest, merchant_id: str) -> None:
    """Delete the merchant, also when the demo is being interrupted."""
    with trio.CancelScope(shield=True):
        await shop.ask("DELETE", f"/v1/merchants/{merchant_id}")


class Buyer(Protocol):
    """Whose wallet it is."""

    @property
    def accounts(self) -> Sequence[str]:
        """CAIP-10, as the gateway is told."""

    async def choose(self, options: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The option that is taken, of one or more. Raises Refused when none is wanted."""

    async def do(self, option: dict[str, Any], call: dict[str, Any]) -> str:
        """The result of an action of this option. Raises Refused when it is not what a buyer wants."""


class ApprovingBuyer:
    """The buyer of the test realm whose payments are approved: takes the first option, signs anything."""

    accounts = (f"eip155:8453:{BUYER}",)

    async def choose(self, options: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The first."""
        return options[0]

    async def do(self, option: dict[str, Any], call: dict[str, Any]) -> str:
        """Something of the right shape."""
        return execute(call)


async def pay(
    rest: Rest, payment_id: str, tell: Callable[[str], None], buyer: Buyer | None = None
) -> dict[str, Any]:
    """Pay as a wallet would.

    Args:
        rest: With the credentials of an app.
        payment_id: What to pay.
        tell: Told of each step, in words.
        buyer: Who pays; None: the one of the test realm who approves.

    Returns:
        What the confirm answered, after the payment moved on or `CONFIRM_POLL_MS`.

    Raises:
        Refused: The gateway refuses, or offers nothing.
    """
    buyer = buyer or ApprovingBuyer()
    gateway = f"/v1/gateway/payment/{payment_id}"
    found = await rest.ask("POST", f"{gateway}/options?includePaymentInfo=true", list(buyer.accounts))
    if not found["options"]:
        raise Refused("The gateway offers no way to pay.")
    option = await buyer.choose(found["options"])
    tell(f"found {_counted(found['options'])}; takes {amount_words(option['amount'])}")
    actions = [
        call for action in option["actions"] for call in await _resolved(rest, gateway, option, action)
    ]
    results = [{"type": "walletRpc", "data": [await buyer.do(option, call)]} for call in actions]
    body = {"optionId": option["id"], "results": results}
    tell(f"did {', '.join(call['method'] for call in actions)}; confirms")
    answer: dict[str, Any] = await rest.ask("POST", f"{gateway}/confirm?maxPollMs={CONFIRM_POLL_MS}", body)
    return answer


def _counted(options: Sequence[Any]) -> str:
    return "1 way to pay" if len(options) == 1 else f"{len(options)} ways to pay"


async def _resolved(rest: Rest, gateway: str, option: dict[str, Any], action: dict[str, Any]) -> list[Any]:
    if action["type"] != "build":
        return [action]
    built = await rest.ask("POST", f"{gateway}/fetch", {"optionId": option["id"], "data": action["data"]})
    calls: list[Any] = built["actions"]
    return calls


def execute(call: dict[str, Any]) -> str:
    """The result of an action, of the right shape; the test realm looks at nothing else."""
    match call["method"]:
        case "eth_sendTransaction":
            return "0x" + "d3" * 32
        case "solana_signTransaction":
            return signed(msgspec.json.decode(call["params"]))
        case _:
            return "0x" + "d3" * 64 + "1b"


def signed(params: Any) -> str:
    """The transaction of a Solana action, with its first signature in place."""
    request = params[0] if isinstance(params, list) else params
    transaction = bytearray(base64.b64decode(request["transaction"]))
    transaction[1:65] = b"\xd3" * 64
    return base64.b64encode(transaction).decode()
