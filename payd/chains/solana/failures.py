"""Why a transaction failed, or would fail, in words: what the chain's errors mean to who pays.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import Final, TypeAlias

from solders.pubkey import Pubkey

from payd.chains.solana.answers import AnyMessage
from payd.chains.solana.keys import ASSOCIATED_TOKEN, LIGHTHOUSE, SYSTEM, TOKEN, TOKEN_2022
from payd.core.failure import NO_FUNDS as NO_FUNDS
from payd.core.failure import REFUSED

Code: TypeAlias = int | str
"""An instruction's error: a program's own number, or the name of one that all programs share."""

NO_FEE: Final = "the account that pays the network fee does not hold enough SOL"
NO_RENT: Final = "an account would be left with less SOL than the network lets it have"
FROZEN: Final = "a token account is frozen"
PAUSED: Final = "the token is paused by its issuer"
ACCOUNT_GONE: Final = "a token account is not there any more"
ACCOUNT_TAKEN: Final = "a token account belongs to somebody else now"
GUARD: Final = "a condition that the buyer's wallet added does not hold"
EXPIRED: Final = "it is too old"
OUT_OF_UNITS: Final = "it needs more computation than it may"

ALREADY_PROCESSED: Final = "AlreadyProcessed"
BLOCKHASH_NOT_FOUND: Final = "BlockhashNotFound"

_TRANSACTION_WORDS: Final = {
    BLOCKHASH_NOT_FOUND: EXPIRED,
    "AccountNotFound": NO_FEE,
    "InsufficientFundsForFee": NO_FEE,
    "InsufficientFundsForRent": NO_RENT,
}
_SHARED_WORDS: Final[dict[Code, str]] = {
    "ComputationalBudgetExceeded": OUT_OF_UNITS,
    "ProgramFailedToComplete": OUT_OF_UNITS,
}
# What token programs say where they find no account of theirs, and by number: funds, owner, frozen, paused.
_TOKEN_WORDS: Final[dict[Code, str]] = {
    "InvalidAccountData": ACCOUNT_GONE,
    "UninitializedAccount": ACCOUNT_GONE,
    "IncorrectProgramId": ACCOUNT_GONE,
    "InvalidAccountOwner": ACCOUNT_GONE,
    1: NO_FUNDS,
    4: ACCOUNT_TAKEN,
    17: FROZEN,
    67: PAUSED,
}
_WORDS: Final[dict[Pubkey, dict[Code, str]]] = {
    TOKEN: _TOKEN_WORDS,
    TOKEN_2022: _TOKEN_WORDS,
    SYSTEM: {1: NO_FUNDS},
    # It has the System program take the rent of a new account from who pays the fee.
    ASSOCIATED_TOKEN: {1: NO_FEE, 0: ACCOUNT_TAKEN, "IllegalOwner": ACCOUNT_TAKEN},
}
_NAME_CHARS_MAX: Final = 60


def failure_words(error: object, message: AnyMessage) -> str:
    """What became of a transaction that landed with an error."""
    return f"{REFUSED}{reason_of(error, message)}. Nothing was paid."


def reason_of(error: object, message: AnyMessage) -> str:
    """An error as a node gives it, in words without a capital and a stop.

    Args:
        error: `"BlockhashNotFound"`, `{"InstructionError": [2, {"Custom": 1}]}`, and so on.
        message: Of the transaction, which says whose error it is.
    """
    match error:
        case {"InstructionError": [int() as place, inner]}:
            code = _code(inner)
            shown = f"error {code}" if isinstance(code, int) else code
            words = _instruction_words(_program(message, place), code)
            return words or f"its instruction {place + 1} was refused ({shown})"
    name = error_name(error)
    return _TRANSACTION_WORDS.get(name) or f"the network refused it ({name})"


def error_name(error: object) -> str:
    """The chain's own name of an error, fit to be shown."""
    if isinstance(error, dict):
        error = next(iter(error), None)
    letters = error if isinstance(error, str) else ""
    return "".join(letter for letter in letters if letter.isalnum())[:_NAME_CHARS_MAX] or "no reason given"


def _program(message: AnyMessage, place: int) -> Pubkey | None:
    if not 0 <= place < len(message.instructions):
        return None
    return message.account_keys[message.instructions[place].program_id_index]


def _instruction_words(program: Pubkey | None, code: Code) -> str | None:
    """What an instruction's error means; None where nobody can say."""
    if program == LIGHTHOUSE:
        return GUARD
    words = {} if program is None else _WORDS.get(program, {})
    return words.get(code) or _SHARED_WORDS.get(code)


def _code(inner: object) -> Code:
    match inner:
        case {"Custom": int() as number}:
            return number
    return error_name(inner)
