"""What `scripts/nodes` says is there is there."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from eth_keyfile.keyfile import extract_key_from_keyfile
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from payd.chains import keystore
from payd.chains.evm.dialect import EvmDialect
from payd.chains.rpc import NodesDown, Rpc
from payd.chains.solana import keys
from payd.chains.solana.fee_payer import fee_payer_from
from payd.config import load
from payd.store.lock import hold_data_dir
from tests.live import solana
from tests.live.anvil import CHAIN_ID, Anvil
from tests.live.chain import (
    BUYER,
    BUYER_2,
    MULTICALL3,
    RELAYER,
    address,
    calldata,
    private_key,
)
from tests.live.nodes import (
    DATA_PREFIX,
    GAS_COINS,
    GAS_COINS_SOLANA,
    PASSWORD,
    SLOTS,
    TOKEN,
    TOKEN_UNITS,
    remove_earlier,
    write_keystore,
)
from tests.live.solana import PYUSD_MINT, USDC_MINT, LocalSolana

pytestmark = pytest.mark.real_time

ROOT = Path(__file__).parents[2]
SOLANA_WALLET = str(solana.pubkey(solana.STRANGER))
WALLET = "0x000000000000000000000000000000000000bEEF"
LAST_LINE = "  .venv/bin/payd demo"
END_MAX_S = 20


@contextmanager
def running_nodes(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and what it printed until it was ready."""
    command = [sys.executable, "-m", "tests.live.nodes", "--port", "0", "--fund", WALLET]
    command += ["--solana-port", "0", "--fund", SOLANA_WALLET]
    command += ["--folder", str(folder), "--listen", "127.0.0.1:0"]
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


class AskedHere:
    """A node by its address."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def rpc(self, method: str, *params: Any) -> Any:
        async with httpx.AsyncClient() as http:
            asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return (await http.post(self._url, json=asked)).json()["result"]


async def held(rpc: Rpc, account: str) -> int:
    data = "0x" + calldata("balanceOf(address)", account).hex()
    return int(await rpc.call("eth_call", {"to": TOKEN, "data": data}, "latest"), 16)


async def test_the_chain_is_as_it_is_told_and_goes_with_whoever_started_it(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as (process, printed):
        told, _ = load(tmp_path / "payd.toml").chains
        rpc = Rpc(told.rpc, EvmDialect(CHAIN_ID))
        code = await rpc.call("eth_getCode", MULTICALL3, "latest")
        tokens = [await held(rpc, who) for who in (address(BUYER), address(BUYER_2), WALLET)]
        coins = await rpc.call("eth_getBalance", WALLET, "latest")
        process.send_signal(signal.SIGINT)
        ended = process.wait(END_MAX_S)
        with pytest.raises(NodesDown, match="connection"):
            await rpc.call("eth_blockNumber")
        await rpc.aclose()

    assert told.id == f"eip155:{CHAIN_ID}"
    assert len(code) > 100
    assert tokens == [TOKEN_UNITS] * 3
    assert int(coins, 16) == GAS_COINS
    assert private_key(BUYER) in printed
    assert private_key(BUYER_2) in printed
    assert ended == 0


async def test_solana_runs_beside_it_as_it_is_told(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as (_, printed):
        _, told = load(tmp_path / "payd.toml").chains
        payer = fee_payer_from(extract_key_from_keyfile(str(tmp_path / "relayer.json"), PASSWORD.encode()))
        node = LocalSolana(AskedHere(told.rpc[0]))
        genesis = await node.rpc("getGenesisHash")
        held = [
            await node.tokens(owner, mint, program)
            for owner in (solana.pubkey(solana.BUYER), Pubkey.from_string(SOLANA_WALLET))
            for mint, program in ((USDC_MINT, keys.TOKEN), (PYUSD_MINT, keys.TOKEN_2022))
        ]
        coins = [await node.lamports(one) for one in (payer.address, Pubkey.from_string(SOLANA_WALLET))]
        first = await node.rpc("getSlot", {"commitment": "processed"})
        with trio.fail_after(20):
            while await node.rpc("getSlot", {"commitment": "processed"}) == first:
                await trio.sleep(0.05)
    wallet = Keypair.from_json((tmp_path / "buyer-solana.json").read_text())

    assert told.id == f"solana:{genesis[:32]}"
    assert told.id != solana.CHAIN
    assert told.ws.startswith("ws://")
    assert held == [TOKEN_UNITS] * 4
    assert coins == [GAS_COINS_SOLANA] * 2
    assert str(wallet) in printed
    assert wallet.pubkey() == solana.pubkey(solana.BUYER)


async def test_blocks_come_by_themselves_alone_and_become_final(tmp_path: Path) -> None:
    with running_nodes(tmp_path):
        rpc = Rpc(load(tmp_path / "payd.toml").chains[0].rpc, EvmDialect(CHAIN_ID))
        at_once, first = await rpc.batch([("anvil_getAutomine",), ("eth_blockNumber",)])
        with trio.fail_after(60):
            while await rpc.call("eth_blockNumber") == first:
                await trio.sleep(0.1)
        await rpc.call("anvil_mine", hex(2 * SLOTS))
        final = await rpc.call("eth_getBlockByNumber", "finalized", False)
        await rpc.aclose()

    assert at_once is False
    assert int(final["number"], 16) > int(first, 16)


def test_keys_are_in_keystores_that_only_their_owner_reads(tmp_path: Path) -> None:
    for name, place in (("relayer", RELAYER), ("buyer", BUYER)):
        write_keystore(tmp_path, name, place)
        file = write_keystore(tmp_path, name, place)  # The second time, over what is there.

        key = extract_key_from_keyfile(str(file), PASSWORD.encode())
        assert "0x" + key.hex() == private_key(place)
        assert "0x" + json.loads(file.read_text())["address"] == address(place).lower()
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600] * 4


async def test_each_chain_has_its_own_data_and_a_configuration_that_payd_takes(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as (_, printed):
        first = load(tmp_path / "payd.toml")
        assert shlex.quote(str(tmp_path / "payd.toml")) in printed
    first.data_dir.mkdir()
    (tmp_path / "data-of-mine").mkdir()
    with running_nodes(tmp_path) as (_, printed):
        second = load(tmp_path / "payd.toml")

    assert second.data_dir != first.data_dir
    assert not first.data_dir.exists()
    assert (tmp_path / "data-of-mine").exists()
    assert "earlier chain" not in printed
    assert second.relayer.keystore is not None
    assert keystore.unlock(second.relayer.keystore, PASSWORD).signer().address == address(RELAYER).lower()


def test_the_data_of_a_server_that_runs_is_left_alone_and_named(tmp_path: Path) -> None:
    old = tmp_path / f"{DATA_PREFIX}{'0a' * 8}"
    with hold_data_dir(old):
        [held] = remove_earlier(tmp_path)
        assert str(old) in held
        assert old.exists()
    assert remove_earlier(tmp_path) == []
    assert not old.exists()


def test_a_port_that_is_taken_is_told_before_anything_is_written(tmp_path: Path, anvil: Anvil) -> None:
    command = [sys.executable, "-m", "tests.live.nodes", "--folder", str(tmp_path)]
    for option, other in (("--port", "--solana-port"), ("--solana-port", "--port")):
        ended = subprocess.run(
            [*command, option, str(anvil.port), other, "0"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        words = (
            f"Another program serves at 127.0.0.1:{anvil.port}, perhaps an earlier scripts/nodes: end it, or"
        )
        words += f" choose another port with {option}, such as {option} {anvil.port + 10}\n"
        assert (ended.returncode, ended.stderr) == (1, words)
    assert list(tmp_path.iterdir()) == []
