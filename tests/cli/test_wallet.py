"""The demo's wallet does what the actions say, in order, and hands back results of the right shape."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from payd.cli import wallet
from payd.cli.failure import Refused
from payd.cli.wallet import Rest
from payd.net.http import Client, Reply, Target


class Gateway(Client):
    """A gateway that gives the answers it was given, and remembers what it was asked."""

    def __init__(self, *answers: tuple[int | None, Any]) -> None:
        self.asked: list[tuple[str, str, Any, dict[str, str]]] = []
        self._answers = list(answers)

    async def send(
        self, method: str, target: Target, headers: Any, body: bytes = b"", **_limits: Any
    ) -> Reply:
        decoded = msgspec.json.decode(body) if body else None
        self.asked.append((method, target.path, decoded, dict(headers)))
        status, answer = self._answers.pop(0)
        encoded = b"" if answer is None else msgspec.json.encode(answer)
        return Reply(status, None if status else "connection_refused", "nobody", (), encoded, True, None, 1)


def rest(gateway: Gateway) -> Rest:
    return Rest(gateway, "http://127.0.0.1:1", {"App-Id": "app_t1", "Client-Id": "c"})


def rpc(method: str, params: str = "[]") -> dict[str, str]:
    return {"type": "walletRpc", "chain_id": "eip155:8453", "method": method, "params": params}


def option(*actions: Any) -> dict[str, Any]:
    amount = {"value": "12500000", "unit": "caip19/x", "display": {"decimals": 6, "assetSymbol": "USDC"}}
    return {"id": "opt_1", "amount": amount, "actions": list(actions)}


async def test_every_action_is_done_in_order_and_built_ones_are_resolved() -> None:
    gateway = Gateway(
        (200, {"options": [option(rpc("eth_signTypedData_v4"), {"type": "build", "data": "D"}), option()]}),
        (200, {"actions": [rpc("eth_sendTransaction"), rpc("personal_sign")]}),
        (200, {"status": "processing", "isFinal": False}),
    )
    told: list[str] = []
    assert (await wallet.pay(rest(gateway), "pay_t1", told.append))["status"] == "processing"
    options, fetch, confirm = gateway.asked
    assert options[1] == "/v1/gateway/payment/pay_t1/options?includePaymentInfo=true"
    assert options[2] == [f"eip155:8453:{wallet.BUYER}"]
    assert options[3]["App-Id"] == "app_t1"
    assert fetch[2] == {"optionId": "opt_1", "data": "D"}
    sizes = [len(result["data"][0]) for result in confirm[2]["results"]]
    assert sizes == [2 + 130, 2 + 64, 2 + 130], "signature, hash, signature"
    assert told == [
        "found 2 ways to pay; takes 12.500000 USDC",
        "did eth_signTypedData_v4, eth_sendTransaction, personal_sign; confirms",
    ]


async def test_without_an_option_it_gives_up() -> None:
    with pytest.raises(Refused, match="no way to pay"):
        await wallet.pay(rest(Gateway((200, {"options": []}))), "pay_t1", print)


def test_a_solana_transaction_comes_back_signed_and_otherwise_as_it_was() -> None:
    unsigned = bytes([1]) + bytes(64) + b"message"
    params = msgspec.json.encode([{"transaction": base64.b64encode(unsigned).decode()}]).decode()
    signed = base64.b64decode(wallet.execute(rpc("solana_signTransaction", params)))
    assert signed[:1] + signed[65:] == unsigned[:1] + unsigned[65:]
    assert signed[1:65] != bytes(64)


@pytest.fixture
def refusing() -> Gateway:
    return Gateway((400, {"message": "Not so.", "code": "invalid_params"}), (None, None), (204, None))


async def test_a_refusal_names_the_request_and_shows_the_answer(refusing: Gateway) -> None:
    with pytest.raises(Refused, match=r"GET /v1/x answered 400: .*Not so\."):
        await rest(refusing).ask("GET", "/v1/x")
    said = (
        r"GET http://127\.0\.0\.1:1/v1/x: connection_refused \(nobody\)\."
        r" .* the server.s base_url; `payd doctor`"
    )
    with pytest.raises(Refused, match=said):
        await rest(refusing).ask("GET", "/v1/x")
    assert await rest(refusing).ask("DELETE", "/v1/x", Merchant_Id="mrch_1") is None
    assert refusing.asked[-1][3]["Merchant-Id"] == "mrch_1"
    assert "content-type" not in refusing.asked[-1][3]


def test_the_buyer_is_the_published_one_who_approves() -> None:
    assert int(wallet.BUYER, 16) == 1
