"""The wallet of `payd demo --mode live`: a key that signs or sends on one EVM chain, as a buyer's does.

It binds whatever it signs to its own chain, so that a key which pays on a test chain pays nowhere else, pays
no more of the option's asset than it says, and offers for gas what the chain's configuration allows.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from payd.chains.rpc import Rpc
from payd.cli.asked import ask_password
from payd.cli.chain_wallet import Landed
from payd.cli.failure import Refused
from payd.core.caip import AssetId, ChainId, parse_asset, to_checksum_address

SIGN: Final = "eth_signTypedData_v4"
SEND: Final = "eth_sendTransaction"
SIGNABLE: Final = frozenset({"TransferWithAuthorization", "ReceiveWithAuthorization"})

# A block that is fuller than the last may double the price of gas before the transaction is in one.
PRICE_ROOM: Final = 2
TAKEN: Final = frozenset({"ok", "known"})


def read_wallet(file: Path, password_file: Path | None) -> bytes:
    """The key in a keystore; its password is in the file, or asked for.

    Raises:
        Refused: There is no such keystore, or it does not open.
    """
    from payd.chains.keystore import KeystoreUnusable, read_key, read_password

    if not file.exists():
        raise Refused(f"There is no wallet {file}. It is a keystore, as Ethereum programs write it.")
    try:
        password = read_password(password_file, {})
        if password is None:
            password = ask_password(f"Password of {file}")
        return read_key(file, password)
    except KeystoreUnusable as unusable:
        raise Refused(str(unusable)) from unusable


class EvmWallet:
    """One key on one chain; a `ChainWallet`.

    Args:
        key: 32 bytes.
        chain: Where it pays.
        rpc: The chain's nodes.
        sends: Whether it takes an option that it sends itself, and not one that it only signs.
        max_fee_wei: The most that it offers for a unit of gas, whatever a node says.

    Attributes:
        address: Checksummed.
        accounts: Of the wallet, as CAIP-10.
    """

    def __init__(self, key: bytes, chain: ChainId, rpc: Rpc, *, sends: bool, max_fee_wei: int) -> None:
        from payd.chains.evm.signer import Signer

        self._key = key
        self._signer = Signer(key)
        self._chain_number = int(chain.reference)
        self._rpc = rpc
        self._wanted = SEND if sends else SIGN
        self._max_fee_wei = max_fee_wei
        self._option: dict[str, Any] | None = None
        self._left = 0  # of what the option says
        self.address = to_checksum_address(self._signer.address)
        self.accounts = (f"{chain}:{self.address}",)

    async def choose(self, options: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The first that is paid the way the wallet wants to pay."""
        for option in options:
            if {action.get("method") for action in option["actions"]} == {self._wanted}:
                return option
        if self._wanted == SIGN:
            raise Refused("Nothing here is paid by a signature alone. Send a transaction instead: --send")
        raise Refused("Nothing here is paid by a transaction. Leave --send out.")

    async def do(self, option: dict[str, Any], call: dict[str, Any]) -> str:
        """Sign or send, as asked, if it is from this wallet, on this chain, and no more than was agreed.

        What several actions of one option pay counts together.
        """
        if option is not self._option:
            self._option, self._left = option, int(option["amount"]["value"])
        asset = parse_asset(option["amount"]["unit"].removeprefix("caip19/"))
        params = _params(call)
        match call["method"], params:
            case "eth_signTypedData_v4", [str(), str(text)]:
                return self._sign(text, asset)
            case "eth_sendTransaction", [dict(transaction)]:
                return await self._send(transaction, asset)
        raise Refused(f"The wallet does not know what to do with {call['method']}.")

    def _sign(self, text: str, asset: AssetId) -> str:
        from eth_account import Account
        from eth_account.messages import encode_typed_data

        typed = msgspec.json.decode(text)
        message = typed["message"]
        _check(typed["primaryType"] in SIGNABLE, f"to sign {typed['primaryType']}, which is no transfer")
        _check(int(typed["domain"]["chainId"]) == self._chain_number, "to sign for another chain")
        _check(self._is_own(message["from"]), "to sign for another account")
        _check(_is_same(typed["domain"]["verifyingContract"], asset.reference), "to pay in another token")
        self._spend(int(message["value"]))
        signed = Account.sign_message(encode_typed_data(full_message=typed), self._key)
        return "0x" + bytes(signed.signature).hex()

    async def _send(self, asked: dict[str, Any], asset: AssetId) -> str:
        from payd.chains.evm.binding import TRANSFER_BYTES, TRANSFER_SELECTOR
        from payd.chains.evm.codec import WORD_BYTES, from_count, from_data, from_quantity

        value, data = from_quantity(asked.get("value", "0x0")), from_data(asked.get("data", "0x"))
        _check(self._is_own(asked["from"]), "to send from another account")
        if asset.namespace == "slip44":
            _check(len(data) <= WORD_BYTES, "to call a contract, where it is to send coins")
            self._spend(value)
        else:
            _check(_is_same(asked["to"], asset.reference), "to pay in another token")
            _check(value == 0 and data.startswith(TRANSFER_SELECTOR), "to send what is no transfer of tokens")
            self._spend(int.from_bytes(data[TRANSFER_BYTES - WORD_BYTES : TRANSFER_BYTES], "big"))
        ask = self._rpc.call
        gas = from_count(await ask("eth_estimateGas", asked))
        price = from_quantity(await ask("eth_gasPrice"))
        tip = from_quantity(await ask("eth_maxPriorityFeePerGas"))
        _check(
            max(price, tip) <= self._max_fee_wei, "for more gas money than max_fee_gwei of its chain allows"
        )
        nonce = from_count(await ask("eth_getTransactionCount", self.address, "pending"))
        max_fee = min(PRICE_ROOM * price + tip, self._max_fee_wei)
        to, gas = asked["to"].lower(), gas + gas // 4
        signed = self._signer.sign(self._chain_number, nonce, to, data, gas, max_fee, tip, value)
        said = await self._rpc.broadcast(signed.raw)
        if not any(one.verdict in TAKEN for one in said):
            raise Refused(f"No node took the transaction: {'; '.join(one.message for one in said)}")
        return signed.hash

    def _spend(self, value: int) -> None:
        _check(0 <= value <= self._left, "for more than the option says")
        self._left -= value

    async def head(self) -> str:
        """Where the chain is, in words."""
        from payd.chains.evm.codec import from_count

        return f"at block {from_count(await self._rpc.call('eth_blockNumber'))}"

    async def balance(self, asset: AssetId, address: str) -> int:
        """What an address has of a token or of the native coin."""
        from payd.chains.evm.abi import balance_of_call, decode_uint
        from payd.chains.evm.codec import from_data, from_quantity, to_data

        if asset.namespace == "slip44":
            return from_quantity(await self._rpc.call("eth_getBalance", address, "latest"))
        asked = {"to": asset.reference, "data": to_data(balance_of_call(address.lower()))}
        return decode_uint(from_data(await self._rpc.call("eth_call", asked, "latest")))

    async def landed(self, tx_id: str) -> Landed | None:
        """What became of a transaction."""
        from payd.chains.evm.codec import from_count

        receipt = await self._rpc.call("eth_getTransactionReceipt", tx_id)
        if receipt is None:
            return None
        payer = "the wallet" if self._is_own(receipt.get("from")) else "the relayer"
        block = from_count(receipt.get("blockNumber"))
        return Landed(receipt.get("status") == "0x1", f"block {block} has it; {payer} paid the gas")

    def _is_own(self, address: Any) -> bool:
        return _is_same(address, self._signer.address)


def _params(call: dict[str, Any]) -> Any:
    params = call.get("params")
    return msgspec.json.decode(params) if isinstance(params, str) else params


def _is_same(address: Any, as_one: str) -> bool:
    return isinstance(address, str) and address.lower() == as_one.lower()


def _check(holds: bool, words: str) -> None:
    if not holds:
        raise Refused(f"The wallet refuses: it was asked {words}.")
