"""A local chain to try live mode on: a node, a dollar token, buyers who have some, a payd.toml.

`scripts/nodes` runs it. Nothing on it is worth anything, and everybody knows its keys.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import trio
from eth_keyfile.keyfile import create_keyfile_json

from payd.store.lock import DataDirectoryBusy, hold_data_dir
from tests.live.anvil import CACHE, Anvil, running_anvil
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

PORT: Final = 8545
# Beside 8420, where the first server of a newcomer is.
LISTEN: Final = "127.0.0.1:8430"
DATA_PREFIX: Final = "data-of-chain-"
BLOCK_TIME_S: Final = 1
# With a block a second, `safe` is so many seconds behind and `finalized` twice as many.
SLOTS: Final = 4
TOKEN: Final = FIRST_CONTRACT
TOKEN_UNITS: Final = 1_000_000 * 10**6
GAS_COINS: Final = 100 * 10**18
FOLDER: Final = CACHE.parent / "nodes"
PASSWORD: Final = "payd"
# A small scrypt: the key is known to everybody.
SCRYPT_N: Final = 2**12

CONFIGURATION: Final = """\
# Written by scripts/nodes for the local chain that it runs. Nothing on that is worth anything.
data_dir = "{data_dir}"
listen = "{listen}"

[[chains]]
id = "eip155:{chain_id}"
rpc = ["{url}"]
ws = "{ws_url}"
sponsor = true
depth = 2

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

[rates]
source = "table"
table = {{ "USDC/USD" = "1", "ETH/USD" = "3000" }}

[relayer]
keystore = "relayer.json"
password_file = "relayer.password"

[webhooks.test]
allow_http = true
allow_networks = ["127.0.0.0/8", "::1/128"]
"""

TOLD: Final = """\
A local chain runs, with a block each second; Ctrl-C ends it, and what was on
it is gone. Nothing on it is worth anything, and everybody knows its keys.

RPC         {url}
websocket   {ws_url}
chain       eip155:{chain_id}
token       {token}   USDC, 6 decimals, signs EIP-3009
merchant    {merchant}   where money may go

Two buyers, each with a million USDC and coins for gas, and their keys:
  {buyer}
  {buyer_key}
  {buyer_2}
  {buyer_2_key}
{held}
payd's configuration for it is in {file}. Next, in two more terminals:

  scripts/run --config {file}
  .venv/bin/payd demo --mode live --config {file}
"""

HELD: Final = """
A server still runs on an earlier chain, which is gone. Stop it first:
  {problem}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the node until somebody ends it."""
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _running(asked.port) as anvil:
            trio.run(_furnish, anvil, asked.fund)
            held = remove_earlier(asked.folder)
            file = write_files(asked.folder, anvil, asked.listen)
            print(_words(anvil, file, held), flush=True)
            sys.exit(f"the node ended by itself, with {anvil.process.wait()}")
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            print()  # what is typed next is not behind the ^C


@contextmanager
def _running(port: int) -> Iterator[Anvil]:
    """The node, or a line that says why there is none."""
    with ExitStack() as stack:
        try:
            anvil = stack.enter_context(running_anvil(port=port, slots_in_an_epoch=SLOTS))
        except RuntimeError as error:
            if "in use" not in str(error):
                raise
            sys.exit(f"Another program serves at 127.0.0.1:{port}. Choose another with --port PORT")
        yield anvil


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/nodes", description="A local chain to try live mode on.")
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"of 127.0.0.1; 0: a free one (default {PORT})"
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
        help="an account that gets tokens and gas too, such as one of your wallet; may be repeated",
    )
    return parser


async def _furnish(anvil: Anvil, fund: Sequence[str]) -> None:
    """Put on the chain what `TOLD` says."""
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


def write_files(folder: Path, anvil: Anvil, listen: str) -> Path:
    """What payd and the demo's wallet need to work on this chain; gives the configuration's path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_keystore(folder, "relayer", RELAYER)
    write_keystore(folder, "buyer", BUYER)
    file = folder / "payd.toml"
    _write(
        file,
        CONFIGURATION.format(
            data_dir=_data_dir(anvil),
            listen=listen,
            chain_id=anvil.chain_id,
            url=anvil.url,
            ws_url=anvil.ws_url,
            token=TOKEN,
        ),
    )
    return file


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


def _words(anvil: Anvil, file: Path, held: Sequence[str]) -> str:
    return TOLD.format(
        chain_id=anvil.chain_id,
        url=anvil.url,
        ws_url=anvil.ws_url,
        token=TOKEN,
        merchant=address(MERCHANT),
        buyer=address(BUYER),
        buyer_key=private_key(BUYER),
        buyer_2=address(BUYER_2),
        buyer_2_key=private_key(BUYER_2),
        held="".join(HELD.format(problem=problem) for problem in held),
        file=shlex.quote(str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)),
    )


if __name__ == "__main__":
    main()
