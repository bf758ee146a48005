"""What `scripts/nodes` says is there is there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from eth_keyfile.keyfile import extract_key_from_keyfile

from payd.chains.rpc import NodesDown, Rpc
from tests.live.anvil import CHAIN_ID
from tests.live.chain import (
    BUYER,
    BUYER_2,
    MULTICALL3,
    RELAYER,
    address,
    calldata,
    private_key,
)
from tests.live.nodes import GAS_COINS, PASSWORD, SLOTS, TOKEN, TOKEN_UNITS, write_keystore

pytestmark = pytest.mark.real_time

ROOT = Path(__file__).parents[2]
WALLET = "0x000000000000000000000000000000000000bEEF"
LAST_LINE = "password_file"
END_MAX_S = 20


@contextmanager
def running_nodes() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and what it printed until it was ready."""
    command = [sys.executable, "-m", "tests.live.nodes", "--port", "0", "--fund", WALLET]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if line.startswith(LAST_LINE):
                    break
            yield process, "".join(lines)
        finally:
            process.terminate()


def configuration(printed: str) -> dict[str, Any]:
    return tomllib.loads(printed.partition("For payd.toml:\n")[2])


async def held(rpc: Rpc, account: str) -> int:
    data = "0x" + calldata("balanceOf(address)", account).hex()
    return int(await rpc.call("eth_call", {"to": TOKEN, "data": data}, "latest"), 16)


async def test_the_chain_is_as_it_is_told_and_goes_with_whoever_started_it() -> None:
    with running_nodes() as (process, printed):
        [told] = configuration(printed)["chains"]
        rpc = Rpc(told["rpc"], CHAIN_ID)
        code = await rpc.call("eth_getCode", MULTICALL3, "latest")
        tokens = [await held(rpc, who) for who in (address(BUYER), address(BUYER_2), WALLET)]
        coins = await rpc.call("eth_getBalance", WALLET, "latest")
        process.send_signal(signal.SIGINT)
        ended = process.wait(END_MAX_S)
        with pytest.raises(NodesDown, match="connection"):
            await rpc.call("eth_blockNumber")
        await rpc.aclose()

    assert told["id"] == f"eip155:{CHAIN_ID}"
    assert len(code) > 100
    assert tokens == [TOKEN_UNITS] * 3
    assert int(coins, 16) == GAS_COINS
    assert private_key(BUYER) in printed
    assert private_key(BUYER_2) in printed
    assert ended == 0


async def test_blocks_come_by_themselves_alone_and_become_final() -> None:
    with running_nodes() as (_, printed):
        rpc = Rpc(configuration(printed)["chains"][0]["rpc"], CHAIN_ID)
        at_once, first = await rpc.batch([("anvil_getAutomine",), ("eth_blockNumber",)])
        with trio.fail_after(60):
            while await rpc.call("eth_blockNumber") == first:
                await trio.sleep(0.1)
        await rpc.call("anvil_mine", hex(2 * SLOTS))
        final = await rpc.call("eth_getBlockByNumber", "finalized", False)
        await rpc.aclose()

    assert at_once is False
    assert int(final["number"], 16) > int(first, 16)


def test_the_relayers_key_is_in_a_keystore_that_only_its_owner_reads(tmp_path: Path) -> None:
    write_keystore(tmp_path)
    keystore = write_keystore(tmp_path)  # The second time, over what is there.

    key = extract_key_from_keyfile(str(keystore), PASSWORD.encode())
    assert "0x" + key.hex() == private_key(RELAYER)
    assert "0x" + json.loads(keystore.read_text())["address"] == address(RELAYER).lower()
    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.iterdir())] == [0o600, 0o600]
