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

import pytest
import trio
from eth_keyfile.keyfile import extract_key_from_keyfile

from payd.chains import keystore
from payd.chains.evm.dialect import EvmDialect
from payd.chains.rpc import NodesDown, Rpc
from payd.config import load
from payd.store.lock import hold_data_dir
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
    PASSWORD,
    SLOTS,
    TOKEN,
    TOKEN_UNITS,
    remove_earlier,
    write_keystore,
)

pytestmark = pytest.mark.real_time

ROOT = Path(__file__).parents[2]
WALLET = "0x000000000000000000000000000000000000bEEF"
LAST_LINE = "  .venv/bin/payd demo"
END_MAX_S = 20


@contextmanager
def running_nodes(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and what it printed until it was ready."""
    command = [sys.executable, "-m", "tests.live.nodes", "--port", "0", "--fund", WALLET]
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


async def held(rpc: Rpc, account: str) -> int:
    data = "0x" + calldata("balanceOf(address)", account).hex()
    return int(await rpc.call("eth_call", {"to": TOKEN, "data": data}, "latest"), 16)


async def test_the_chain_is_as_it_is_told_and_goes_with_whoever_started_it(tmp_path: Path) -> None:
    with running_nodes(tmp_path) as (process, printed):
        [told] = load(tmp_path / "payd.toml").chains
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
    command = [sys.executable, "-m", "tests.live.nodes", "--port", str(anvil.port), "--folder", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    words = f"Another program serves at 127.0.0.1:{anvil.port}. Choose another with --port PORT\n"
    assert (ended.returncode, ended.stderr) == (1, words)
    assert list(tmp_path.iterdir()) == []
