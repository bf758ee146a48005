"""Tokens and wallets that payd was not written against: their code, and their rows in payd.toml."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any, Final

import msgspec
from eth_abi.abi import encode
from eth_utils.address import to_checksum_address

from payd.web.commands import run_command
from tests.live.chain import DEPLOYER, FOLDER, MERCHANT, LocalChain, account, address, calldata
from tests.live.street import CHAIN, MINTED, Street

OPEN_DOMAIN: Final = '{ name = "Open Dollar", version = "1" }'


@cache
def artefact() -> dict[str, Any]:
    """The compiled contracts by name: `abi`, `bytecode`, `runtime`."""
    read = json.loads((FOLDER / "strange.json").read_text())
    source = hashlib.sha256((FOLDER / "Strange.sol").read_bytes()).hexdigest()
    assert read["source"] == source, "compile Strange.sol again; compile.mjs says how"
    contracts: dict[str, Any] = read["contracts"]
    return contracts


async def deploy_strange(chain: LocalChain, name: str, *owners: str) -> str:
    """The address of a fresh contract; its constructor takes addresses alone."""
    code = bytes.fromhex(artefact()[name]["bytecode"][2:]) + encode(["address"] * len(owners), owners)
    receipt = await chain.done(account(DEPLOYER), None, code)
    return to_checksum_address(receipt["contractAddress"])


async def coin(chain: LocalChain, name: str, *rich: str) -> str:
    """A fresh token of which these have plenty."""
    token = await deploy_strange(chain, name)
    for one in rich:
        await chain.done(account(DEPLOYER), token, calldata("mint(address,uint256)", one, MINTED))
    return token


def row_of(token: str, kind: str, domain: str = "", decimals: int = 6) -> str:
    """The token's table in payd.toml. Its symbol has a price, which is all that it is for."""
    signed = f"domain = {domain}" if domain else ""
    return f"""
[[assets]]
asset = "{CHAIN}/erc20:{token}"
symbol = "DAI"
name = "A strange dollar"
decimals = {decimals}
kind = "{kind}"
par = "USD"
{signed}
"""


async def take(street: Street, token: str, destination: str | None = None) -> str:
    """Have the merchant paid in a token too. Returns its CAIP-19 id."""
    asset = f"{CHAIN}/erc20:{token}"
    to = f"{CHAIN}:{destination or address(MERCHANT)}"
    where = {"merchant": street.headers["merchant-id"], "asset": asset, "destination": to, "mode": "live"}
    await run_command(street.house, "destination.add", msgspec.json.encode(where))
    return asset
