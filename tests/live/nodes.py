"""A local chain to try live mode on: a node, a dollar token, buyers who have some, the lines of payd.toml.

`scripts/nodes` runs it. Nothing on it is worth anything, and everybody knows its keys.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio
from eth_keyfile.keyfile import create_keyfile_json

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
keystore = "{keystore}"
password_file = "{password_file}"
"""

TOLD: Final = """\
A local chain runs, with a block each second; Ctrl-C ends it, and what was on it is gone.

RPC         {url}
websocket   {ws_url}
chain       eip155:{chain_id}
token       eip155:{chain_id}/erc20:{token}   USD Coin, 6 decimals, signs EIP-3009
merchant    eip155:{chain_id}:{merchant}   where money may go

Two buyers, each with a million USDC and coins for gas. Everybody knows their keys: nothing real there, ever.
  {buyer}   {buyer_key}
  {buyer_2}   {buyer_2_key}

For payd.toml:

{configuration}"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the node until somebody ends it."""
    asked = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with running_anvil(port=asked.port, slots_in_an_epoch=SLOTS) as anvil:
            trio.run(_furnish, anvil, asked.fund)
            print(_words(anvil, write_keystore(FOLDER)), flush=True)
            sys.exit(f"the node ended by itself, with {anvil.process.wait()}")
    except KeyboardInterrupt:
        print()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/nodes", description="A local chain to try live mode on.")
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"of 127.0.0.1; 0: a free one (default {PORT})"
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


def write_keystore(folder: Path) -> Path:
    """The relayer's key in `folder`, readable for its owner alone, and its password beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    key = bytes.fromhex(private_key(RELAYER)[2:])
    made = create_keyfile_json(key, PASSWORD.encode(), kdf="scrypt", iterations=SCRYPT_N)
    keystore = folder / "relayer.json"
    _write(keystore, json.dumps({**made, "address": address(RELAYER)[2:].lower()}))
    _write(folder / "relayer.password", PASSWORD + "\n")
    return keystore


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _words(anvil: Anvil, keystore: Path) -> str:
    facts = {"chain_id": anvil.chain_id, "url": anvil.url, "ws_url": anvil.ws_url, "token": TOKEN}
    configuration = CONFIGURATION.format(
        **facts, keystore=keystore, password_file=keystore.with_name("relayer.password")
    )
    return TOLD.format(
        **facts,
        merchant=address(MERCHANT),
        buyer=address(BUYER),
        buyer_key=private_key(BUYER),
        buyer_2=address(BUYER_2),
        buyer_2_key=private_key(BUYER_2),
        configuration=configuration,
    )


if __name__ == "__main__":
    main()
