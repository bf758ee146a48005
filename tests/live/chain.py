"""A local chain with what tests need on it: accounts that have gas, tokens, wallets, feeds.

The keys are those of every development node; whatever they hold on a real chain is anybody's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypedDict

import trio
from eth_abi.abi import decode, encode
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from tests.live.anvil import Anvil

FOLDER: Final = Path(__file__).parent / "contracts"
MNEMONIC: Final = "test test test test test test test test test test test junk"
ACCOUNTS: Final = 10
# Who is who among them.
DEPLOYER, RELAYER, BUYER, MERCHANT, OPERATOR, STRANGER, BUYER_2, MERCHANT_2 = range(8)
MULTICALL3: Final = "0xcA11bde05977b3631167028862bE2a173976CA11"
# Where the deployer's first contract comes to be on a fresh chain.
FIRST_CONTRACT: Final = "0x5FbDB2315678afecb367f032d93F642f64180aa3"

GAS: Final = 6_000_000
MAX_FEE: Final = 10**11
TIP: Final = 10**9
MINED_MAX_S: Final = 30


class Fees(TypedDict):
    """What a sender offers, smallest units for a unit of gas."""

    max_fee: int
    tip: int


# Above what anybody else offers: the next block has it first.
URGENT: Final[Fees] = {"max_fee": 10**12, "tip": 10**11}


@cache
def artefact() -> dict[str, Any]:
    """The compiled contracts by name: `abi`, `bytecode`, `runtime`."""
    read = json.loads((FOLDER / "contracts.json").read_text())
    source = hashlib.sha256((FOLDER / "Test.sol").read_bytes()).hexdigest()
    assert read["source"] == source, "compile Test.sol again; compile.mjs says how"
    contracts: dict[str, Any] = read["contracts"]
    return contracts


@cache
def account(place: int) -> LocalAccount:
    """One of the node's ten accounts with 10 000 coins each."""
    Account.enable_unaudited_hdwallet_features()
    made: LocalAccount = Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{place}")
    return made


def address(place: int) -> str:
    """Its address, checksummed."""
    return str(account(place).address)


def private_key(place: int) -> str:
    """Its key, as `0x…`."""
    return "0x" + bytes(account(place).key).hex()


def types_in(signature: str) -> list[str]:
    """The types of a function's parameters: `f(address,(uint256,bool)[])` has two."""
    types, depth, word = [], 0, ""
    for char in signature[signature.index("(") + 1 : -1]:
        if char == "," and depth == 0:
            types.append(word)
            word = ""
            continue
        depth += (char == "(") - (char == ")")
        word += char
    return [*types, word] if word else types


def calldata(signature: str, *values: Any) -> bytes:
    """A call of `signature`, such as `transfer(address,uint256)`."""
    return keccak(text=signature)[:4] + encode(types_in(signature), values)


class LocalChain:
    """Sends and reads on a running node."""

    def __init__(self, anvil: Anvil) -> None:
        self.anvil = anvil

    async def rpc(self, method: str, *params: Any) -> Any:
        """One call; raises `Refused` where the node does."""
        return await self.anvil.rpc(method, *params)

    async def send_as(
        self,
        sender: LocalAccount,
        to: str | None,
        data: bytes = b"",
        value: int = 0,
        *,
        nonce: int | None = None,
        gas: int = GAS,
        max_fee: int = MAX_FEE,
        tip: int = TIP,
    ) -> str:
        """The hash of a transaction that the node took; `to` None makes a contract."""
        raw = await self.signed(sender, to, data, value, nonce=nonce, gas=gas, max_fee=max_fee, tip=tip)
        return str(await self.rpc("eth_sendRawTransaction", "0x" + raw.hex()))

    async def signed(
        self,
        sender: LocalAccount,
        to: str | None,
        data: bytes = b"",
        value: int = 0,
        *,
        nonce: int | None = None,
        gas: int = GAS,
        max_fee: int = MAX_FEE,
        tip: int = TIP,
    ) -> bytes:
        """The bytes of a transaction; without a nonce, with the next one of the pool."""
        if nonce is None:
            nonce = int(await self.rpc("eth_getTransactionCount", sender.address, "pending"), 16)
        fields: dict[str, Any] = {
            "type": 2,
            "chainId": self.anvil.chain_id,
            "nonce": nonce,
            "value": value,
            "data": data,
            "gas": gas,
            "maxFeePerGas": max_fee,
            "maxPriorityFeePerGas": tip,
        }
        if to is not None:
            fields["to"] = to_checksum_address(to)
        return bytes(sender.sign_transaction(fields).raw_transaction)

    async def receipt(self, tx_hash: str) -> dict[str, Any]:
        """The receipt, once there is one: the node mines an instant after it took the transaction."""
        with trio.fail_after(MINED_MAX_S):
            while (found := await self.rpc("eth_getTransactionReceipt", tx_hash)) is None:
                await trio.sleep(0.002)
        receipt: dict[str, Any] = found
        return receipt

    async def done(
        self, sender: LocalAccount, to: str | None, data: bytes = b"", value: int = 0
    ) -> dict[str, Any]:
        """The receipt of a transaction that succeeded."""
        receipt = await self.receipt(await self.send_as(sender, to, data, value))
        assert receipt["status"] == "0x1", receipt
        return receipt

    async def deploy(self, name: str, types: Sequence[str] = (), values: Sequence[Any] = ()) -> str:
        """The address of a fresh contract of the artefact."""
        code = bytes.fromhex(artefact()[name]["bytecode"][2:]) + encode(list(types), list(values))
        receipt = await self.done(account(DEPLOYER), None, code)
        return to_checksum_address(receipt["contractAddress"])

    async def place(self, name: str, at: str) -> str:
        """The code of a contract at an address of one's choice, without its constructor having run."""
        await self.rpc("anvil_setCode", at, artefact()[name]["runtime"])
        return at

    async def token(self, name: str = "USD Coin", symbol: str = "USDC", version: str = "2") -> str:
        """A fresh `TestUSD`."""
        return await self.deploy("TestUSD", ["string"] * 3, [name, symbol, version])

    async def token_at(
        self, at: str, name: str = "USD Coin", symbol: str = "USDC", version: str = "2"
    ) -> str:
        """A `TestUSD` where a well-known token is on its real chain."""
        await self.place("TestUSD", at)
        await self.done(account(DEPLOYER), at, calldata("init(string,string,string)", name, symbol, version))
        return at

    async def mint(self, token: str, to: str, value: int) -> None:
        """Minor units of a `TestUSD` out of nothing."""
        await self.done(account(DEPLOYER), token, calldata("mint(address,uint256)", to, value))

    async def view(self, to: str, types: Sequence[str], signature: str, *values: Any) -> tuple[Any, ...]:
        """What a contract's function returns, decoded as `types`."""
        asked = {"to": to, "data": "0x" + calldata(signature, *values).hex()}
        said = await self.rpc("eth_call", asked, "latest")
        return tuple(decode(list(types), bytes.fromhex(said[2:])))

    async def balance(self, token: str, of: str) -> int:
        """Minor units of a token."""
        [units] = await self.view(token, ["uint256"], "balanceOf(address)", of)
        return int(units)

    async def mine(self, blocks: int = 1) -> None:
        """So many blocks more."""
        await self.rpc("anvil_mine", hex(blocks))

    async def reorg(self, depth: int, transactions: Sequence[tuple[bytes, int]] = ()) -> None:
        """Other blocks in place of the newest `depth`; what was in them is gone, from the pool too.

        Args:
            depth: How many blocks.
            transactions: Signed ones for the new blocks, each with the number of its block among them.
        """
        pairs = [["0x" + raw.hex(), place] for raw, place in transactions]
        await self.rpc("anvil_reorg", depth, pairs)

    async def head(self) -> int:
        """The newest block's number."""
        return int(await self.rpc("eth_blockNumber"), 16)

    async def now_s(self) -> int:
        """The newest block's time, Unix seconds."""
        return int((await self.rpc("eth_getBlockByNumber", "latest", False))["timestamp"], 16)
