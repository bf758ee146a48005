"""A small Solana for unit tests: wallets, tokens and token accounts in LiteSVM, where the real programs run.

Lighthouse is not among them; in its place stands a program that does nothing and takes everything, so that a
guard never saves a test.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable
from typing import Any

from solders.account import Account
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata

from payd.chains.solana.accounts import HOLDING_BYTES, MINT_BYTES, decode_holding
from payd.chains.solana.answers import Landed, decode_landed
from payd.chains.solana.build import with_signature
from payd.chains.solana.extensions import Kind
from payd.chains.solana.keys import LIGHTHOUSE, SYSTEM, TOKEN, TOKEN_PROGRAMS, token_account

USDC = Pubkey.from_string("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
PYUSD = Pubkey.from_string("2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo")

SOL = 10**9
IS_MINT, IS_HOLDING = b"\x01", b"\x02"


def person(number: int) -> Keypair:
    """The same wallet for the same number, each time."""
    return Keypair.from_seed(bytes([number]) * 32)


BUYER, MERCHANT, OPERATOR, PAYER, STRANGER = (person(number) for number in range(1, 6))


def extension(kind: Kind | int, data: bytes = b"") -> bytes:
    """An extension as Token-2022 writes it."""
    return struct.pack("<HH", kind, len(data)) + data


def option(key: Pubkey | None) -> bytes:
    """A key that may be missing."""
    return bytes(36) if key is None else struct.pack("<I", 1) + bytes(key)


def mint_data(decimals: int = 6, extensions: bytes = b"", *, is_initialized: bool = True) -> bytes:
    """What a mint's account holds."""
    data = (
        option(STRANGER.pubkey()) + struct.pack("<Q", 10**18) + bytes([decimals, is_initialized]) + bytes(36)
    )
    assert len(data) == MINT_BYTES
    return data + bytes(HOLDING_BYTES - MINT_BYTES) + IS_MINT + extensions if extensions else data


def holding_data(
    mint: Pubkey,
    owner: Pubkey,
    amount: int,
    extensions: bytes = b"",
    *,
    state: int = 1,
    native: int | None = None,
) -> bytes:
    """What a token account holds."""
    data = bytes(mint) + bytes(owner) + struct.pack("<Q", amount) + option(None) + bytes([state])
    data += bytes(12) if native is None else struct.pack("<IQ", 1, native)
    data += bytes(8) + option(None)
    assert len(data) == HOLDING_BYTES
    return data + IS_HOLDING + extensions if extensions else data


PYUSD_EXTENSIONS = b"".join(
    (
        extension(Kind.MINT_CLOSE_AUTHORITY, bytes(STRANGER.pubkey())),
        extension(Kind.PERMANENT_DELEGATE, bytes(STRANGER.pubkey())),
        extension(Kind.TRANSFER_FEE_CONFIG, 2 * bytes(STRANGER.pubkey()) + bytes(8 + 18 + 18)),
        extension(Kind.CONFIDENTIAL_TRANSFER_MINT, bytes(STRANGER.pubkey()) + bytes(33)),
        extension(Kind.CONFIDENTIAL_TRANSFER_FEE_CONFIG, bytes(STRANGER.pubkey()) + bytes(97)),
        extension(Kind.TRANSFER_HOOK, bytes(STRANGER.pubkey()) + bytes(32)),
        extension(Kind.METADATA_POINTER, bytes(STRANGER.pubkey()) + bytes(PYUSD)),
        extension(Kind.TOKEN_METADATA, bytes(STRANGER.pubkey()) + bytes(PYUSD) + b"\x0a\0\0\0PayPal USD"),
    )
)
"""The set that the real one has."""


class World:
    """One LiteSVM. What is put into it is there at once; what is sent is signed and runs."""

    def __init__(self) -> None:
        self.svm = LiteSVM()
        self.svm.add_program(LIGHTHOUSE, program_that_does_nothing())

    @property
    def blockhash(self) -> str:
        """The one that a transaction must have."""
        return str(self.svm.latest_blockhash())

    def put_sol(self, owner: Keypair, lamports: int) -> None:
        """A wallet has so much and no more."""
        self.svm.set_account(owner.pubkey(), Account(lamports, b"", SYSTEM))

    def put_mint(self, mint: Pubkey, program: Pubkey = TOKEN, data: bytes | None = None) -> None:
        """There is a token."""
        self.svm.set_account(mint, Account(SOL, mint_data() if data is None else data, program))

    def put_tokens(
        self, owner: Keypair, mint: Pubkey, amount: int, program: Pubkey = TOKEN, extensions: bytes = b""
    ) -> Pubkey:
        """A wallet's associated token account holds so much."""
        place = token_account(owner.pubkey(), mint, program)
        data = holding_data(mint, owner.pubkey(), amount, extensions)
        self.svm.set_account(place, Account(self.rent(len(data)), data, program))
        return place

    def rent(self, size: int) -> int:
        """Lamports that an account of so many bytes needs."""
        return self.svm.minimum_balance_for_rent_exemption(size)

    def tokens(self, owner: Keypair, mint: Pubkey, program: Pubkey = TOKEN) -> int:
        """What a wallet's associated token account holds; nothing where there is none."""
        account = self.svm.get_account(token_account(owner.pubkey(), mint, program))
        return 0 if account is None else decode_holding(account.owner, bytes(account.data)).amount

    def lamports(self, owner: Keypair) -> int:
        """What a wallet has."""
        return self.svm.get_balance(owner.pubkey()) or 0

    def send(self, raw: bytes) -> Landed:
        """Let a signed transaction run, as it is told of afterwards."""
        landed = decode_landed(self.answer_of(raw))
        assert landed is not None
        return landed

    def answer_of(self, raw: bytes, slot: int = 1000) -> dict[str, Any]:
        """Let a signed transaction run; what `getTransaction` answers then."""
        transaction = VersionedTransaction.from_bytes(raw)
        message = transaction.message
        assert isinstance(message, Message | MessageV0)
        keys = message.account_keys
        before = self._balances(keys)
        result = self.svm.send_transaction(transaction)
        is_failed = isinstance(result, FailedTransactionMetadata)
        meta = result.meta() if isinstance(result, FailedTransactionMetadata) else result
        after = self._balances(keys)
        return {
            "slot": slot,
            "blockTime": 1_800_000_000,
            "version": "legacy",
            "transaction": [base64.b64encode(raw).decode(), "base64"],
            "meta": {
                "err": str(result.err()) if isinstance(result, FailedTransactionMetadata) else None,
                "fee": meta.fee(),
                "logMessages": meta.logs(),
                "computeUnitsConsumed": meta.compute_units_consumed(),
                "preBalances": before[0],
                "postBalances": after[0],
                "preTokenBalances": before[1],
                "postTokenBalances": after[1],
                "loadedAddresses": {"readonly": [], "writable": []},
                "status": {"Err": "…"} if is_failed else {"Ok": None},
            },
        }

    def _balances(self, keys: Iterable[Pubkey]) -> tuple[list[int], list[dict[str, Any]]]:
        lamports, tokens = [], []
        for index, key in enumerate(keys):
            account = self.svm.get_account(key)
            lamports.append(0 if account is None else account.lamports)
            if account is None or account.owner not in TOKEN_PROGRAMS or len(account.data) < HOLDING_BYTES:
                continue
            data = bytes(account.data)
            if len(data) > HOLDING_BYTES and data[HOLDING_BYTES] != IS_HOLDING[0]:
                continue
            holding = decode_holding(account.owner, data)
            tokens.append(
                {
                    "accountIndex": index,
                    "mint": str(holding.mint),
                    "owner": str(holding.owner),
                    "programId": str(account.owner),
                    "uiTokenAmount": {"amount": str(holding.amount), "decimals": 6, "uiAmount": None},
                }
            )
        return lamports, tokens


def signed(raw: bytes, *signers: Keypair) -> bytes:
    """The transaction with the signatures of these."""
    message = raw[1 + 64 * raw[0] :]
    for signer in signers:
        raw = with_signature(raw, signer.pubkey(), bytes(signer.sign_message(message)))
    return raw


def program_that_does_nothing() -> bytes:
    """The executable of one: `r0 = 0; exit`, with the headers that a loader asks for."""
    code = bytes.fromhex("b700000000000000" + "9500000000000000")
    names = b"\0.text\0.shstrtab\0"
    code_at = 64 + 56
    names_at = code_at + len(code)
    sections_at = -(-(names_at + len(names)) // 8) * 8
    ident = b"\x7fELF" + bytes([2, 1, 1, 0]) + bytes(8)
    header = struct.pack("<HHIQQQIHHHHHH", 3, 247, 1, code_at, 64, sections_at, 0, 64, 56, 1, 64, 3, 2)
    segment = struct.pack("<IIQQQQQQ", 1, 5, code_at, code_at, code_at, len(code), len(code), 0x1000)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 6, code_at, code_at, len(code), 0, 0, 8, 0)
    sections += struct.pack("<IIQQQQIIQQ", 7, 3, 0, 0, names_at, len(names), 0, 0, 1, 0)
    return (ident + header + segment + code + names).ljust(sections_at, b"\0") + sections
