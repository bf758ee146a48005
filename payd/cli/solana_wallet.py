"""The wallet of `payd demo --mode live` on Solana: a key that signs a transaction, as a buyer's does.

It signs what moves no more out of its account than the option says, and nothing that it does not know.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from payd.cli.chain_wallet import Landed
from payd.cli.failure import Refused
from payd.core.caip import AssetId, ChainId

if TYPE_CHECKING:
    from solders.instruction import CompiledInstruction
    from solders.keypair import Keypair
    from solders.message import Message
    from solders.pubkey import Pubkey

    from payd.chains.rpc import Rpc

SIGN: Final = "solana_signTransaction"
FILE_BYTES_MAX: Final = 4096
VERSIONED: Final = 0x80

# What a transfer says of itself, and how long that is: its number, the amount, and the decimals of a token.
_TOKEN_TRANSFER: Final = (b"\x0c", 10)
_SOL_TRANSFER: Final = (b"\x02\0\0\0", 12)
_AMOUNT_BYTES: Final = 8


def read_keypair(file: Path) -> Keypair:
    """The key in a file as solana-keygen writes it: a list of 64 numbers.

    Raises:
        Refused: There is no such file, or it is another one.
    """
    from solders.keypair import Keypair

    try:
        with file.open("rb") as opened:
            numbers = msgspec.json.decode(opened.read(FILE_BYTES_MAX), type=list[int])
        return Keypair.from_bytes(bytes(numbers))
    except FileNotFoundError:
        raise Refused(
            f"There is no wallet {file}. It is a file of 64 numbers, as solana-keygen writes it."
        ) from None
    except (msgspec.DecodeError, ValueError):
        raise Refused(f"{file} is no wallet: it has not the 64 numbers that solana-keygen writes.") from None


class SolanaWallet:
    """One key on one chain; a `ChainWallet`.

    Args:
        keys: Its own.
        chain: Where it pays.
        rpc: The chain's nodes.

    Attributes:
        address: In base58.
        accounts: Of the wallet, as CAIP-10.
    """

    def __init__(self, keys: Keypair, chain: ChainId, rpc: Rpc) -> None:
        self._keys = keys
        self._rpc = rpc
        self.address = str(keys.pubkey())
        self.accounts = (f"{chain}:{self.address}",)

    async def choose(self, options: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The first one."""
        return options[0]

    async def do(self, option: dict[str, Any], call: dict[str, Any]) -> str:
        """The transaction with the wallet's signature, if it pays from it, and no more than was agreed."""
        from payd.chains.solana.build import split, with_signature

        raw = self._asked(call)
        message = split(raw)[1]
        self._check(message, option)
        signature = bytes(self._keys.sign_message(message))
        return base64.b64encode(with_signature(raw, self._keys.pubkey(), signature)).decode()

    def _asked(self, call: dict[str, Any]) -> bytes:
        params = call.get("params")
        if call["method"] != SIGN:
            raise Refused(f"The wallet does not know what to do with {call['method']}.")
        match msgspec.json.decode(params) if isinstance(params, str) else params:
            case [{"transaction": str(text), "pubkey": self.address}]:
                return base64.b64decode(text)
        raise Refused("The wallet refuses: it was asked to sign for another account.")

    def _check(self, message: bytes, option: dict[str, Any]) -> None:
        from solders.message import Message

        from payd.chains.solana.keys import ASSOCIATED_TOKEN, COMPUTE_BUDGET, MEMO

        try:
            read = Message.from_bytes(message)
        except ValueError:
            read = None
        # What a version begins with, a legacy message would take for more than a hundred signers.
        if read is None or message[0] >= VERSIONED:
            raise Refused("The wallet refuses: it was asked to sign what is no legacy transaction.")
        if self._keys.pubkey() not in read.signer_keys():
            raise Refused("The wallet refuses: it was asked to sign for another account.")
        native = "/slip44:" in option["amount"]["unit"]
        moved = 0
        for each in read.instructions:
            program = read.account_keys[each.program_id_index]
            if program not in (ASSOCIATED_TOKEN, COMPUTE_BUDGET, MEMO):
                moved += self._moved_by(read, each, program, native=native)
        if moved > int(option["amount"]["value"]):
            raise Refused("The wallet refuses: it was asked for more than the option says.")

    def _moved_by(self, read: Message, each: CompiledInstruction, program: Pubkey, *, native: bool) -> int:
        """What a transfer takes of the option's asset; anything that is no such transfer is refused."""
        from payd.chains.solana.keys import SYSTEM, TOKEN_PROGRAMS

        (mark, length), source = (_SOL_TRANSFER, 0) if native else (_TOKEN_TRANSFER, 3)
        is_known = program == SYSTEM if native else program in TOKEN_PROGRAMS
        data = bytes(each.data)
        if not is_known or not data.startswith(mark) or len(data) != length or len(each.accounts) <= source:
            raise Refused(f"The wallet refuses: it was asked to call {program} for what is no payment.")
        if read.account_keys[each.accounts[source]] != self._keys.pubkey():
            raise Refused("The wallet refuses: it was asked to pay from another account.")
        return int.from_bytes(data[len(mark) : len(mark) + _AMOUNT_BYTES], "little")

    async def head(self) -> str:
        """Where the chain is, in words."""
        from payd.chains.solana.answers import decode_count
        from payd.chains.solana.asking import slot_call

        return f"at slot {decode_count(await self._rpc.call(*slot_call()))}"

    async def balance(self, asset: AssetId, address: str) -> int:
        """What an address has of a token, in its associated account, or of SOL."""
        from solders.pubkey import Pubkey

        from payd.chains.solana.accounts import decode_holding
        from payd.chains.solana.keys import token_account

        owner = Pubkey.from_string(address)
        if asset.namespace == "slip44":
            account = await self._account(owner)
            return 0 if account is None else account.lamports
        mint = Pubkey.from_string(asset.reference)
        token = await self._account(mint)
        if token is None:
            raise Refused(f"The chain has no token {asset.reference}.")
        account = await self._account(token_account(owner, mint, token.owner))
        return 0 if account is None else decode_holding(account.owner, account.data).amount

    async def _account(self, key: Pubkey) -> Any:
        from payd.chains.solana.answers import decode_accounts
        from payd.chains.solana.asking import account_calls

        [call] = account_calls([key])
        [account] = decode_accounts(await self._rpc.call(*call), 1)[1]
        return account

    async def landed(self, tx_id: str) -> Landed | None:
        """What became of a transaction."""
        from payd.chains.solana.answers import decode_landed
        from payd.chains.solana.asking import transaction_call

        found = decode_landed(await self._rpc.call(*transaction_call(tx_id)), tx_id)
        if found is None:
            return None
        payer = "the wallet" if found.keys[0] == self._keys.pubkey() else "the server"
        return Landed(found.err is None, f"slot {found.slot} has it; {payer} paid the network's fee")
