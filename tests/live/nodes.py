"""Local chains to try live mode on, EVM and Solana: dollar tokens, buyers who have some, a payd.toml.

`scripts/nodes` runs it. Nothing on them is worth anything, and everybody knows their keys.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio
from eth_keyfile.keyfile import create_keyfile_json
from solders.pubkey import Pubkey

from payd.chains.solana.fee_payer import fee_payer_from
from payd.chains.solana.keys import TOKEN as TOKEN_PROGRAM
from payd.chains.solana.keys import TOKEN_2022
from payd.store.lock import DataDirectoryBusy, hold_data_dir
from tests.live import solana
from tests.live.anvil import Anvil, running_anvil
from tests.live.chain import (
    BUYER,
    BUYER_2,
    FIRST_CONTRACT,
    MERCHANT,
    MULTICALL3,
    RELAYER,
    LocalChain,
    address,
    private_key,
)
from tests.live.node_process import NodeProcess
from tests.live.solana import LAMPORTS, PYUSD_MINT, USDC_MINT, LocalSolana
from tests.live.svm_node import SLOT_MS, running_svm_node
from tests.packages import CACHE

LOOK_S: Final = 0.5
PORT: Final = 8545
# Beside 8420, where the first server of a newcomer is.
LISTEN: Final = "127.0.0.1:8430"
DATA_PREFIX: Final = "data-of-chain-"
BLOCK_TIME_S: Final = 1
# With a block a second, `safe` is so many seconds behind and `finalized` twice as many.
SLOTS: Final = 4
SOLANA_PORT: Final = 8899
# No cluster of Solana has it.
SOLANA_GENESIS: Final = "TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3PabTjqRAL2a9"
# What is final is some seconds behind, as on the real chain.
FINALIZED: Final = 32
TOKEN: Final = FIRST_CONTRACT
TOKEN_UNITS: Final = 1_000_000 * 10**6
GAS_COINS: Final = 100 * 10**18
GAS_COINS_SOLANA: Final = 100 * LAMPORTS
FOLDER: Final = CACHE / "nodes"
PASSWORD: Final = "payd"
# A small scrypt: the key is known to everybody.
SCRYPT_N: Final = 2**12

CONFIGURATION: Final = """\
# Written by scripts/nodes for the local chains that it runs. Nothing on them is worth anything.
data_dir = "{data_dir}"
listen = "{listen}"

[[chains]]
id = "eip155:{chain_id}"
rpc = ["{url}"]
ws = "{ws_url}"
sponsor = true
depth = 2

[[chains]]
id = "{solana}"
rpc = ["{solana_url}"]
ws = "{solana_ws_url}"
sponsor = true

[[assets]]
asset = "eip155:{chain_id}/erc20:{token}"
symbol = "USDC"
name = "USD Coin"
decimals = 6
kind = "eip3009"
domain = {{ name = "USD Coin", version = "2" }}
par = "USD"

[[assets]]
asset = "eip155:{chain_id}/slip44:60"
symbol = "ETH"
name = "Ether"
decimals = 18
kind = "native"

[[assets]]
asset = "{solana}/token:{usdc_mint}"
symbol = "USDC"
name = "USD Coin"
decimals = 6
kind = "spl"
par = "USD"

[[assets]]
asset = "{solana}/token:{pyusd_mint}"
symbol = "PYUSD"
name = "PayPal USD"
decimals = 6
kind = "spl"
token_2022 = true
par = "USD"

[[assets]]
asset = "{solana}/slip44:501"
symbol = "SOL"
name = "Solana"
decimals = 9
kind = "native"

[rates]
source = "table"
table = {{ "USDC/USD" = "1", "PYUSD/USD" = "1", "ETH/USD" = "3000", "SOL/USD" = "150" }}

[relayer]
keystore = "relayer.json"
password_file = "relayer.password"

[webhooks.test]
allow_http = true
allow_networks = ["127.0.0.0/8", "::1/128"]
"""

TOLD: Final = """\
Two local chains run; Ctrl-C ends them, and what was on them is gone. Nothing on
them is worth anything, and everybody knows their keys.

EVM, with a block each second
  RPC         {url}
  websocket   {ws_url}
  chain       eip155:{chain_id}
  token       {token}   USDC, 6 decimals, signs EIP-3009
  merchant    {merchant}   where money may go
  buyers, each with a million USDC and coins for gas, and their keys:
    {buyer}
    {buyer_key}
    {buyer_2}
    {buyer_2_key}

Solana, with a block each {slot_ms} milliseconds
  RPC         {solana_url}
  websocket   {solana_ws_url}
  chain       {solana}
  tokens      {usdc_mint}   USDC, 6 decimals, SPL Token
              {pyusd_mint}   PYUSD, 6 decimals, Token-2022
  merchant    {solana_merchant}   where money may go
  buyers, each with a million of both, the second with SOL too, and keys as wallets import them:
    {solana_buyer}
    {solana_buyer_key}
    {solana_buyer_2}
    {solana_buyer_2_key}
{held}
payd's configuration for them is in {file}. Next, in two more terminals:

  scripts/run --config {file}
  .venv/bin/payd demo --mode live --config {file}
  .venv/bin/payd demo --mode live --config {file} --chain {solana}
"""

HELD: Final = """
A server still runs on an earlier chain, which is gone. Stop it first:
  {problem}
"""


@dataclass(frozen=True)
class Chains:
    """Both, while they run."""

    anvil: Anvil
    svm: NodeProcess

    def wait(self) -> int:
        """What the first one that ends by itself ended with."""
        while True:
            for process in (self.anvil.process, self.svm.process):
                if (code := process.poll()) is not None:
                    return code
            # A signal that came within `Popen.wait` could leave its lock taken, and nobody would end.
            time.sleep(LOOK_S)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the nodes until somebody ends them."""
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _running(asked.port, asked.solana_port) as chains:
            trio.run(_furnish, chains, asked.fund)
            held = remove_earlier(asked.folder)
            file = write_files(asked.folder, chains, asked.listen)
            print(_words(chains, file, held), flush=True)
            sys.exit(f"a node ended by itself, with {chains.wait()}")
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            print()  # what is typed next is not behind the ^C


@contextmanager
def _running(port: int, solana_port: int) -> Iterator[Chains]:
    """The nodes, or a line that says why there are none."""
    with ExitStack() as stack:
        with _port_in_words(port, "--port"):
            anvil = stack.enter_context(running_anvil(port=port, slots_in_an_epoch=SLOTS))
        with _port_in_words(solana_port, "--solana-port"):
            made = running_svm_node(
                port=solana_port, genesis=SOLANA_GENESIS, slot_ms=SLOT_MS, finalized=FINALIZED
            )
            svm = stack.enter_context(made)
        yield Chains(anvil, svm)


@contextmanager
def _port_in_words(port: int, option: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "in use" not in str(error):
            raise
        sys.exit(
            f"Another program serves at 127.0.0.1:{port}, perhaps an earlier scripts/nodes: end it, or choose"
            f" another port with {option}, such as {option} {port + 10}"
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/nodes", description="Local chains to try live mode on.")
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"of the EVM node on 127.0.0.1; 0: a free one (default {PORT})"
    )
    parser.add_argument(
        "--solana-port",
        type=int,
        default=SOLANA_PORT,
        metavar="PORT",
        help="of the Solana node on 127.0.0.1, whose websocket is at the next one; 0: a free one"
        f" (default {SOLANA_PORT})",
    )
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="HOST:PORT",
        help=f"where payd will serve, by the payd.toml that is written (default {LISTEN})",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=FOLDER,
        help="where payd.toml, keys and payd's data go; data of an earlier chain in it is removed"
        " (default .cache/nodes)",
    )
    parser.add_argument(
        "--fund",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="an account, EVM or Solana, that gets tokens and gas too, such as one of your wallet;"
        " may be repeated",
    )
    return parser


async def _furnish(chains: Chains, fund: Sequence[str]) -> None:
    """Put on the chains what `TOLD` says."""
    await _furnish_evm(chains.anvil, [account for account in fund if account.startswith("0x")])
    await _furnish_solana(chains.svm, [account for account in fund if not account.startswith("0x")])


async def _furnish_evm(anvil: Anvil, fund: Sequence[str]) -> None:
    chain = LocalChain(anvil)
    await chain.rpc("anvil_setLoggingEnabled", False)  # Nobody reads it, and it would grow.
    await chain.place("Multicall3", MULTICALL3)
    token = await chain.token()
    assert token == TOKEN, "the deployer's first contract"
    for account in (address(BUYER), address(BUYER_2), *fund):
        await chain.mint(token, account, TOKEN_UNITS)
    for account in fund:
        await chain.rpc("anvil_setBalance", account, hex(GAS_COINS))
    # From here on a transaction waits for its block, as elsewhere.
    await chain.rpc("evm_setIntervalMining", BLOCK_TIME_S)


async def _furnish_solana(svm: NodeProcess, fund: Sequence[str]) -> None:
    local = LocalSolana(svm)
    buyers = [solana.pubkey(solana.BUYER), solana.pubkey(solana.BUYER_2), *map(Pubkey.from_string, fund)]
    for mint, program in ((USDC_MINT, TOKEN_PROGRAM), (PYUSD_MINT, TOKEN_2022)):
        await local.mint(mint, program)
        for one in buyers:
            await local.give(one, mint, TOKEN_UNITS, program)
    # The first one has no SOL: what it signs, the server pays for.
    for one in (*buyers[1:], fee_payer_from(relayer_key()).address):
        await local.fund(one, GAS_COINS_SOLANA)


def write_files(folder: Path, chains: Chains, listen: str) -> Path:
    """What payd and the demo's wallets need to work on these chains; gives the configuration's path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_keystore(folder, "relayer", RELAYER)
    write_keystore(folder, "buyer", BUYER)
    _write(folder / "buyer-solana.json", json.dumps(list(bytes(solana.keypair(solana.BUYER)))))
    file = folder / "payd.toml"
    data_dir = _data_dir(chains.anvil)
    _write(file, CONFIGURATION.format(data_dir=data_dir, listen=listen, **_of_chains(chains)))
    return file


def _of_chains(chains: Chains) -> dict[str, Any]:
    return {
        "chain_id": chains.anvil.chain_id,
        "url": chains.anvil.url,
        "ws_url": chains.anvil.ws_url,
        "token": TOKEN,
        "solana": f"solana:{SOLANA_GENESIS[:32]}",
        "solana_url": chains.svm.url,
        "solana_ws_url": chains.svm.ws_url,
        "usdc_mint": USDC_MINT,
        "pyusd_mint": PYUSD_MINT,
    }


def relayer_key() -> bytes:
    """What is in the relayer's keystore: the fee payer of Solana comes from it too."""
    return bytes.fromhex(private_key(RELAYER)[2:])


def write_keystore(folder: Path, name: str, place: int) -> Path:
    """One of the keys in `folder`, readable for its owner alone, and its password beside it."""
    key = bytes.fromhex(private_key(place)[2:])
    made = create_keyfile_json(key, PASSWORD.encode(), kdf="scrypt", iterations=SCRYPT_N)
    keystore = folder / f"{name}.json"
    _write(keystore, json.dumps({**made, "address": address(place)[2:].lower()}))
    _write(keystore.with_suffix(".password"), PASSWORD + "\n")
    return keystore


def _data_dir(anvil: Anvil) -> str:
    """Each chain has its own data: payd knows how far it read, and on another chain that is nowhere."""
    first = anvil.ask("eth_getBlockByNumber", "0x0", False)
    return f"{DATA_PREFIX}{first['hash'][2:18]}"


def remove_earlier(folder: Path) -> list[str]:
    """Remove the data of chains that are gone; says of which a server still runs."""
    held = []
    for old in folder.glob(f"{DATA_PREFIX}{'[0-9a-f]' * 16}"):
        try:
            with hold_data_dir(old):
                shutil.rmtree(old)
        except DataDirectoryBusy as busy:
            held.append(str(busy).partition(":")[0])
    return held


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _words(chains: Chains, file: Path, held: Sequence[str]) -> str:
    return TOLD.format(
        **_of_chains(chains),
        merchant=address(MERCHANT),
        buyer=address(BUYER),
        buyer_key=private_key(BUYER),
        buyer_2=address(BUYER_2),
        buyer_2_key=private_key(BUYER_2),
        slot_ms=SLOT_MS,
        solana_merchant=solana.address(solana.MERCHANT),
        solana_buyer=solana.address(solana.BUYER),
        solana_buyer_key=solana.keypair(solana.BUYER),
        solana_buyer_2=solana.address(solana.BUYER_2),
        solana_buyer_2_key=solana.keypair(solana.BUYER_2),
        held="".join(HELD.format(problem=problem) for problem in held),
        file=shlex.quote(str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)),
    )


if __name__ == "__main__":
    main()
