"""The node that Solana is tested on serves over HTTP and websocket, here or in a process of its own."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from itertools import repeat
from typing import Any

import httpx
import pytest
import trio
from trio_websocket import open_websocket_url

from tests.live.node_process import END_MAX_S, NodeProcess
from tests.live.solana import (
    BUYER,
    MERCHANT,
    USDC_MINT,
    LocalSolana,
    furnish_solana,
    keypair,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.svm_node import ServedNode, open_svm_node, running_svm_node
from tests.live.test_svm_methods import merchants, pay

pytestmark = pytest.mark.real_time


async def asked_of(served: ServedNode, body: Any) -> Any:
    async with httpx.AsyncClient() as http:
        return (await http.post(served.url, json=body)).json()


async def test_it_answers_calls_and_batches_over_http() -> None:
    one = {"jsonrpc": "2.0", "id": 7, "method": "getHealth"}
    odd = {"jsonrpc": "2.0", "id": 8, "method": "getNoSuchThing"}
    async with open_svm_node() as served:
        single = await asked_of(served, one)
        batch = await asked_of(served, [one, odd])

    assert single == {"jsonrpc": "2.0", "id": 7, "result": "ok"}
    assert [answer["id"] for answer in batch] == [7, 8]
    assert batch[1]["error"]["code"] == -32601


async def test_a_websocket_tells_of_signatures_and_of_logs() -> None:
    async with open_svm_node() as served, open_websocket_url(served.ws_url) as socket:
        local = LocalSolana(served)
        await furnish_solana(local)
        raw = await local.signed([pay_token(pubkey(BUYER), pubkey(MERCHANT), USDC_MINT, 25)], keypair(BUYER))
        calls = [
            ("signatureSubscribe", [tx_id_of(raw), {"commitment": "confirmed"}]),
            ("logsSubscribe", [{"mentions": [str(pubkey(BUYER))]}, {"commitment": "processed"}]),
        ]
        with trio.fail_after(10):
            for number, (method, params) in enumerate(calls, 1):
                request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                await socket.send_message(json.dumps(request))
                assert json.loads(await socket.get_message())["result"] == number
            await local.send_raw(raw)
            logs = json.loads(await socket.get_message())
            await local.slots(1)
            signature = json.loads(await socket.get_message())

    assert (logs["method"], signature["method"]) == ("logsNotification", "signatureNotification")
    assert logs["params"]["result"]["value"]["signature"] == tx_id_of(raw)
    assert signature["params"]["subscription"] == 1
    assert signature["params"]["result"]["value"] == {"err": None}


async def test_blocks_can_come_by_themselves() -> None:
    async with open_svm_node(slot_s=0.01) as served:
        first = served.ledger.tip.slot
        with trio.fail_after(10):
            while served.ledger.tip.slot < first + 3:
                await trio.sleep(0.005)
        assert served.ledger.tip.height > 0


async def test_one_in_a_process_of_its_own_is_the_same() -> None:
    with running_svm_node() as process:
        local = LocalSolana(process)
        await furnish_solana(local)
        await pay(local)
        await local.slots(4)
        held = await merchants(local)
        async with open_websocket_url(process.ws_url) as socket:
            await socket.send_message('{"jsonrpc":"2.0","id":1,"method":"getNoSuchThing"}')
            refused = json.loads(await socket.get_message())

    assert held == [25, 25, 25]
    assert refused["error"]["code"] == -32601


def test_one_that_is_ended_while_it_works_ends_in_order() -> None:
    def ask_for_ever(node: NodeProcess) -> None:
        with suppress(OSError, HTTPException):
            for method in repeat("getSlot"):
                node.ask(method)

    for _ in range(3):
        with running_svm_node(slot_ms=1) as node, ThreadPoolExecutor() as busy:
            for _ in range(2):
                busy.submit(ask_for_ever, node)
            while node.ask("getSlot") < 20:
                pass
            node.process.terminate()
            assert node.process.wait(END_MAX_S) == 0
