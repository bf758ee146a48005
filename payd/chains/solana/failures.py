"""Why a transaction failed, or would fail, in words: what the chain's errors mean to who pays.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final

from solders.message import Message, MessageV0
from solders.pubkey import Pubkey

from payd.chains.solana.keys import ASSOCIATED_TOKEN, LIGHTHOUSE, SYSTEM, TOKEN_PROGRAMS

# The errors of the token programs, and the one of the System program, by their numbers.
_TOKEN_FUNDS: Final = 1
_TOKEN_OWNER: Final = 4
_TOKEN_FROZEN: Final = 17
_TOKEN_WORDS: Final = {
    _TOKEN_FUNDS: "the buyer's account does not hold enough of the token",
    _TOKEN_OWNER: "a token account belongs to somebody else now",
    _TOKEN_FROZEN: "a token account is frozen",
}
_SYSTEM_FUNDS: Final = 1
NO_FUNDS: Final = "the buyer's account does not hold enough"
NO_FEE: Final = "the account that pays the network fee does not hold enough SOL"
NO_RENT: Final = "an account would be left with less SOL than the network lets it have"
ACCOUNT_GONE: Final = "a token account is not there any more, or is no such account now"
ACCOUNT_TAKEN: Final = "the merchant's token account belongs to somebody else now"
GUARD: Final = "a condition that the buyer's wallet added does not hold"
EXPIRED: Final = "it is too old"
OUT_OF_UNITS: Final = "it needs more computation than it asked for"

_TRANSACTION_WORDS: Final = {
    "InsufficientFundsForFee": NO_FEE,
    "InsufficientFundsForRent": NO_RENT,
    "AccountNotFound": NO_FEE,
    "BlockhashNotFound": EXPIRED,
    "WouldExceedMaxBlockCostLimit": "the network is full",
}
# What the programs say where one finds no token account in its place.
_GONE: Final = ("InvalidAccountData", "UninitializedAccount", "IncorrectProgramId", "InvalidAccountOwner")
_OUT_OF_UNITS: Final = ("ComputationalBudgetExceeded", "ProgramFailedToComplete")

ALREADY_PROCESSED: Final = "AlreadyProcessed"
NAME_CHARS_MAX: Final = 60


def failure_words(error: object, message: Message | MessageV0) -> str:
    """What became of a transaction that landed with an error."""
    return f"The transaction failed on the blockchain: {reason_of(error, message)}. Nothing was paid."


def reason_of(error: object, message: Message | MessageV0) -> str:
    """An error as a node gives it, in words without a capital and a stop.

    Args:
        error: `"BlockhashNotFound"`, `{"InstructionError": [2, {"Custom": 1}]}`, and so on.
        message: Of the transaction, which says whose error it is.
    """
    name = error_name(error)
    if name in _TRANSACTION_WORDS:
        return _TRANSACTION_WORDS[name]
    match error:
        case {"InstructionError": [int() as place, inner]}:
            words = _instruction_words(_program(message, place), inner)
            return words or f"its instruction {place + 1} was refused ({_named(inner)})"
    return f"the network refused it ({name or 'no reason given'})"


def error_name(error: object) -> str:
    """The chain's own name of an error, fit to be shown; empty where it has none."""
    if isinstance(error, dict):
        error = next(iter(error), None)
    if not isinstance(error, str):
        return ""
    return "".join(letter for letter in error if letter.isalnum())[:NAME_CHARS_MAX]


def _program(message: Message | MessageV0, place: int) -> Pubkey | None:
    if not 0 <= place < len(message.instructions):
        return None
    return message.account_keys[message.instructions[place].program_id_index]


def _instruction_words(program: Pubkey | None, inner: object) -> str | None:
    """What an instruction's error means; None where nobody can say."""
    custom = inner.get("Custom") if isinstance(inner, dict) else None
    if program in TOKEN_PROGRAMS:
        if isinstance(custom, int):
            return _TOKEN_WORDS.get(custom)
        return ACCOUNT_GONE if inner in _GONE else _budget_words(inner)
    if program == SYSTEM and custom == _SYSTEM_FUNDS:
        return NO_FUNDS
    if program == ASSOCIATED_TOKEN:
        # It checks whose account it finds, and lets the System program pay for one that it makes.
        return NO_FEE if custom == _SYSTEM_FUNDS else ACCOUNT_TAKEN if _is_refusal(inner) else _budget_words(inner)
    if program == LIGHTHOUSE:
        return GUARD
    return _budget_words(inner)


def _is_refusal(inner: object) -> bool:
    return inner in ("InvalidAccountOwner", "IllegalOwner", "IncorrectProgramId", "InvalidSeeds") or (
        isinstance(inner, dict) and inner.get("Custom") == 0
    )


def _budget_words(inner: object) -> str | None:
    return OUT_OF_UNITS if inner in _OUT_OF_UNITS else None


def _named(inner: object) -> str:
    if isinstance(inner, dict) and isinstance(number := inner.get("Custom"), int):
        return f"error {number}"
    return error_name(inner) or "no reason given"
