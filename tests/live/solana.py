"""A local Solana with what tests need on it: wallets that have SOL, mints at their real addresses, tokens.

The keys are made from small numbers; whatever they hold on a real chain is anybody's.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any, Final, Literal, Protocol, TypeAlias
from urllib.parse import parse_qs, urlsplit

import base58
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from payd.chains.solana.keys import ASSOCIATED_TOKEN, MEMO, SYSTEM, TOKEN, TOKEN_2022, token_account
from tests.live.svm_methods import MAINNET_GENESIS

CHAIN: Final = f"solana:{MAINNET_GENESIS[:32]}"
# Who is who; `keypair` makes their keys.
BUYER, BUYER_2, MERCHANT, MERCHANT_2, OPERATOR, STRANGER, ISSUER, POOR, FEE_PAYER = range(1, 10)

USDC_MINT: Final = Pubkey.from_string("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
USDT_MINT: Final = Pubkey.from_string("Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB")
PYUSD_MINT: Final = Pubkey.from_string("2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo")
USDC: Final = f"{CHAIN}/token:{USDC_MINT}"
USDT: Final = f"{CHAIN}/token:{USDT_MINT}"
PYUSD: Final = f"{CHAIN}/token:{PYUSD_MINT}"
SOL: Final = f"{CHAIN}/slip44:501"
ASSETS: Final = (USDC, USDT, PYUSD, SOL)

# Each with its program.
MINTS: Final = {USDC_MINT: TOKEN, USDT_MINT: TOKEN, PYUSD_MINT: TOKEN_2022}

LAMPORTS: Final = 10**9
# What each of the buyers has in tokens: 10,000.
MINTED: Final = 10_000 * 10**6
DECIMALS: Final = 6
MINT_SIZE: Final = 82
ACCOUNT_SIZE: Final = 165
# What a transaction of version 1 asks for: one that asks for nothing gets nothing.
CONFIG_OF_1: Final = TransactionConfig(compute_unit_limit=200_000, loaded_accounts_data_size_limit=64 * 2**20)
# Where Token-2022 says what an account with extensions is.
IS_MINT, IS_HOLDING = b"\x01", b"\x02"


Version: TypeAlias = Literal["legacy", 0, 1]
"""Of a transaction."""


class Asks(Protocol):
    """A node, in this process or another."""

    async def rpc(self, method: str, *params: Any) -> Any:
        """The result of one call; raises `Refused`."""


@cache
def keypair(place: int) -> Keypair:
    """One of the keys."""
    return Keypair.from_seed(bytes([place]) * 32)


def pubkey(place: int) -> Pubkey:
    """Its address."""
    return keypair(place).pubkey()


def address(place: int) -> str:
    """The same as text."""
    return str(pubkey(place))


def account_id(place: int) -> str:
    """The same as CAIP-10."""
    return f"{CHAIN}:{address(place)}"


def extension(kind: int, data: bytes) -> bytes:
    """One extension of Token-2022, as it stands in the data of a mint or an account."""
    return struct.pack("<HH", kind, len(data)) + data


def mint_data(decimals: int = 6, extensions: bytes = b"", supply: int = 10**15) -> bytes:
    """The data of a mint whose authority is the issuer."""
    base = struct.pack("<I", 1) + bytes(pubkey(ISSUER)) + struct.pack("<QBB", supply, decimals, 1)
    base += struct.pack("<I", 1) + bytes(pubkey(ISSUER))  # who may freeze
    assert len(base) == MINT_SIZE
    return base if not extensions else base.ljust(ACCOUNT_SIZE, b"\0") + IS_MINT + extensions


def holding_data(owner: Pubkey, mint: Pubkey, amount: int, extensions: bytes = b"", state: int = 1) -> bytes:
    """The data of a token account."""
    base = bytes(mint) + bytes(owner) + struct.pack("<Q", amount) + bytes(36) + bytes([state]) + bytes(56)
    assert len(base) == ACCOUNT_SIZE
    return base if not extensions else base + IS_HOLDING + extensions


class LocalSolana:
    """Sends and reads on a running node.

    Attributes:
        id: CAIP-2 of the chain.
        assets: CAIP-19 of what merchants are paid in there.
    """

    def __init__(self, node: Asks, id: str = CHAIN, assets: Sequence[str] = ASSETS) -> None:
        self.node = node
        self.id = id
        self.assets = assets

    def account_id(self, place: int) -> str:
        """One of the wallets as CAIP-10."""
        return f"{self.id}:{address(place)}"

    async def rpc(self, method: str, *params: Any) -> Any:
        """One call; raises `Refused` where the node does."""
        return await self.node.rpc(method, *params)

    async def slots(self, count: int = 1) -> int:
        """So many more blocks; gives the newest slot."""
        return int(await self.rpc("payd_slot", count))

    async def confirm(self) -> None:
        """Have everything confirmed."""
        await self.slots(1)

    async def finalize(self) -> None:
        """Have everything final."""
        await self.slots(33)

    async def fund(self, owner: Pubkey, lamports: int = 10 * LAMPORTS) -> None:
        """SOL out of nothing, without a transaction."""
        await self.rpc("payd_put", str(owner), lamports, str(SYSTEM))

    async def airdrop(self, owner: Pubkey, lamports: int = LAMPORTS) -> str:
        """SOL by a transaction of the faucet; gives its id."""
        return str(await self.rpc("requestAirdrop", str(owner), lamports))

    async def put(self, key: Pubkey, data: bytes, owner: Pubkey, lamports: int | None = None) -> Pubkey:
        """An account, as if it had always been so."""
        rent = await self.rpc("getMinimumBalanceForRentExemption", len(data))
        text = base64.b64encode(data).decode()
        await self.rpc("payd_put", str(key), rent if lamports is None else lamports, str(owner), text)
        return key

    async def mint(
        self, at: Pubkey, program: Pubkey = TOKEN, decimals: int = 6, extensions: bytes = b""
    ) -> Pubkey:
        """A token at an address of one's choice."""
        return await self.put(at, mint_data(decimals, extensions), program)

    async def give(
        self,
        owner: Pubkey,
        mint: Pubkey,
        amount: int,
        program: Pubkey = TOKEN,
        extensions: bytes = b"",
        state: int = 1,
        at: Pubkey | None = None,
    ) -> Pubkey:
        """Tokens out of nothing, in an account that comes to be; gives that account."""
        where = token_account(owner, mint, program) if at is None else at
        return await self.put(where, holding_data(owner, mint, amount, extensions, state), program)

    async def lamports(self, owner: Pubkey, commitment: str = "processed") -> int:
        """What a wallet has in SOL."""
        found = await self.rpc("getBalance", str(owner), {"commitment": commitment})
        return int(found["value"])

    async def tokens(
        self, owner: Pubkey, mint: Pubkey, program: Pubkey = TOKEN, commitment: str = "processed"
    ) -> int:
        """What is in its associated account; 0 where there is none."""
        where = str(token_account(owner, mint, program))
        asked = {"encoding": "base64", "commitment": commitment}
        found = (await self.rpc("getAccountInfo", where, asked))["value"]
        if found is None:
            return 0
        return int(struct.unpack_from("<Q", base64.b64decode(found["data"][0]), 64)[0])

    async def blockhash(self) -> str:
        """Of the newest confirmed block."""
        found = await self.rpc("getLatestBlockhash", {"commitment": "confirmed"})
        return str(found["value"]["blockhash"])

    async def signed(
        self,
        instructions: Sequence[Instruction],
        *signers: Keypair,
        blockhash: str | None = None,
        version: Version = "legacy",
    ) -> bytes:
        """A transaction of these instructions; the first signer pays the fee."""
        fresh = Hash.from_string(blockhash or await self.blockhash())
        payer, made = signers[0].pubkey(), list(instructions)
        message: Message | MessageV0 | MessageV1 = Message.new_with_blockhash(made, payer, fresh)
        if version == 0:
            message = MessageV0.try_compile(payer, made, [], fresh)
        elif version == 1:
            message = MessageV1.try_compile(payer, made, fresh, CONFIG_OF_1)
        return bytes(VersionedTransaction(message, list(signers)))

    async def send_raw(self, raw: bytes, *, skip_preflight: bool = True) -> str:
        """Send what is signed; gives its id."""
        asked = {"encoding": "base64", "skipPreflight": skip_preflight, "maxRetries": 0}
        asked |= {"preflightCommitment": "confirmed"}
        return str(await self.rpc("sendTransaction", base64.b64encode(raw).decode(), asked))

    async def send(
        self, instructions: Sequence[Instruction], *signers: Keypair, version: Version = "legacy"
    ) -> str:
        """Sign, send; raises `Refused` where it would fail."""
        raw = await self.signed(instructions, *signers, version=version)
        return await self.send_raw(raw, skip_preflight=False)

    async def landed(self, tx_id: str, commitment: str = "confirmed") -> dict[str, Any] | None:
        """What `getTransaction` says."""
        asked = {"encoding": "base64", "commitment": commitment, "maxSupportedTransactionVersion": 1}
        found: dict[str, Any] | None = await self.rpc("getTransaction", tx_id, asked)
        return found

    async def status(self, tx_id: str) -> dict[str, Any] | None:
        """What `getSignatureStatuses` says, with all of its history."""
        found = await self.rpc("getSignatureStatuses", [tx_id], {"searchTransactionHistory": True})
        status: dict[str, Any] | None = found["value"][0]
        return status


def pay_sol(payer: Pubkey, to: Pubkey, lamports: int, *references: Pubkey) -> Instruction:
    """SOL from a wallet to another, naming read-only accounts besides."""
    made = transfer(TransferParams(from_pubkey=payer, to_pubkey=to, lamports=lamports))
    named = [AccountMeta(one, is_signer=False, is_writable=False) for one in references]
    return Instruction(made.program_id, bytes(made.data), [*made.accounts, *named])


def pay_token(
    payer: Pubkey,
    to: Pubkey,
    mint: Pubkey,
    amount: int,
    *references: Pubkey,
    program: Pubkey = TOKEN,
    decimals: int = 6,
    source: Pubkey | None = None,
    target: Pubkey | None = None,
) -> Instruction:
    """`TransferChecked` between the associated accounts of two wallets, unless told other accounts."""
    accounts = [
        AccountMeta(source or token_account(payer, mint, program), is_signer=False, is_writable=True),
        AccountMeta(mint, is_signer=False, is_writable=False),
        AccountMeta(target or token_account(to, mint, program), is_signer=False, is_writable=True),
        AccountMeta(payer, is_signer=True, is_writable=False),
        *(AccountMeta(one, is_signer=False, is_writable=False) for one in references),
    ]
    return Instruction(program, struct.pack("<BQB", 12, amount, decimals), accounts)


def create_holding(payer: Pubkey, owner: Pubkey, mint: Pubkey, program: Pubkey = TOKEN) -> Instruction:
    """The associated account of a wallet, unless it is there."""
    accounts = [
        AccountMeta(payer, is_signer=True, is_writable=True),
        AccountMeta(token_account(owner, mint, program), is_signer=False, is_writable=True),
        AccountMeta(owner, is_signer=False, is_writable=False),
        AccountMeta(mint, is_signer=False, is_writable=False),
        AccountMeta(SYSTEM, is_signer=False, is_writable=False),
        AccountMeta(program, is_signer=False, is_writable=False),
    ]
    return Instruction(ASSOCIATED_TOKEN, b"\x01", accounts)


def close_holding(owner: Pubkey, mint: Pubkey, program: Pubkey = TOKEN) -> Instruction:
    """Close an empty token account; its rent goes to its owner."""
    accounts = [
        AccountMeta(token_account(owner, mint, program), is_signer=False, is_writable=True),
        AccountMeta(owner, is_signer=False, is_writable=True),
        AccountMeta(owner, is_signer=True, is_writable=False),
    ]
    return Instruction(program, b"\x09", accounts)


def hand_over(owner: Pubkey, mint: Pubkey, new_owner: Pubkey, program: Pubkey = TOKEN) -> Instruction:
    """Give a token account to somebody else, with what is in it."""
    accounts = [
        AccountMeta(token_account(owner, mint, program), is_signer=False, is_writable=True),
        AccountMeta(owner, is_signer=True, is_writable=False),
    ]
    return Instruction(program, bytes([6, 2, 1]) + bytes(new_owner), accounts)


def pay_by_link(link: str, payer: Pubkey) -> list[Instruction]:
    """What a wallet of Solana Pay makes of a transfer request: its memo, and the transfer that it names.

    Source: Solana Pay specification 1.1, "Specification: Transfer Request".
    """
    parts = urlsplit(link)
    fields = parse_qs(parts.query, strict_parsing=True)
    to, amount = Pubkey.from_string(parts.path), Decimal(fields["amount"][0])
    references = [Pubkey.from_string(one) for one in fields.get("reference", ())]
    memos = [memo(text) for text in fields.get("memo", ())]
    if "spl-token" not in fields:
        return [*memos, pay_sol(payer, to, int(amount * LAMPORTS), *references)]
    mint = Pubkey.from_string(fields["spl-token"][0])
    units = int(amount * 10**DECIMALS)
    return [*memos, pay_token(payer, to, mint, units, *references, program=MINTS.get(mint, TOKEN))]


def memo(text: str) -> Instruction:
    """A memo that nobody signs."""
    return Instruction(MEMO, text.encode(), [])


async def furnish_solana(solana: LocalSolana) -> None:
    """Dollar tokens where they are on the real chain, and buyers who have them, of whom one has no SOL."""
    for mint, program in MINTS.items():
        await solana.mint(mint, program)
        for place in (BUYER, BUYER_2, POOR):
            await solana.give(pubkey(place), mint, MINTED, program)
        await solana.give(pubkey(MERCHANT), mint, 0, program)
    for place in (BUYER, BUYER_2):
        await solana.fund(pubkey(place))


def tx_id_of(raw: bytes) -> str:
    """The id that a signed transaction has."""
    return base58.b58encode(raw[1:65]).decode()
