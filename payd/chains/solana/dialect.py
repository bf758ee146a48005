"""How the nodes of Solana are asked, and what their words mean.

The codes are those of the validator itself; the words beside them are its own, and those of providers.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any, Final

import msgspec

from payd.chains.dialect import LIMITED_WORDS, has
from payd.chains.rpc_errors import BadAnswer, Kind, RpcError, Verdict
from payd.chains.rpc_wire import Call
from payd.chains.solana.answers import decode_accounts, decode_clock
from payd.chains.solana.keys import CLOCK

# CAIP-2 takes so many characters of the genesis hash.
GENESIS_CHARS: Final = 32

# The only error that has a transaction's own words in it, which may be any.
_PREFLIGHT_FAILED: Final = -32002
_PARAMS_INVALID: Final = -32602
# What is asked is at fault, or what was sent: any node would say so.
ANSWER_CODES: Final = frozenset(
    {
        -32003,  # a signature is void
        -32006,  # a signature that a precompile checks is void
        -32013,  # so many signatures do not fit the message
        -32015,  # a version of transactions that we did not say we can read
        _PARAMS_INVALID,
    }
)
# Here a validator reports so, too, that its own index is broken; what we ask of it is well made.
_CLOCK: Final = str(CLOCK)
_INDEXED: Final = "getSignaturesForAddress"
# HTTP's number, alone and in the range of JSON-RPC.
_LIMITED_CODES: Final = frozenset({429, -32429})
# By the names of the chain's own errors, which a node adds to its words.
_VERDICT_OF: Final[dict[str, Verdict]] = {
    "AlreadyProcessed": "known",
    "BlockhashNotFound": "expired",
    "AccountNotFound": "no_funds",
    "InsufficientFundsForFee": "no_funds",
    "InsufficientFundsForRent": "no_funds",
}
_VERDICTS: Final[tuple[tuple[Verdict, tuple[str, ...]], ...]] = (
    ("known", ("already been processed", "alreadyprocessed")),
    ("expired", ("blockhash not found", "blockhashnotfound", "block height exceeded")),
    (
        "no_funds",
        (
            "no record of a prior credit",
            "insufficient funds for fee",
            "insufficientfundsforfee",
            "insufficient funds for rent",
            "insufficientfundsforrent",
        ),
    ),
)


class SolanaDialect(msgspec.Struct, frozen=True):
    """One chain's, called by the beginning of its genesis hash, as in CAIP-2."""

    chain: str

    @property
    def identity_call(self) -> Call:
        """Asks which chain the node is of."""
        return ("getGenesisHash",)

    @property
    def head_call(self) -> Call:
        """Asks for the newest slot that two thirds of the stake have voted for."""
        return ("getSlot", {"commitment": "confirmed"})

    @property
    def time_call(self) -> Call:
        """Asks for the chain's own time, as of the newest confirmed slot."""
        return ("getMultipleAccounts", [_CLOCK], {"commitment": "confirmed", "encoding": "base64"})

    def identity_in(self, result: object) -> str | None:
        """The beginning of the node's genesis hash."""
        if not isinstance(result, str) or re.fullmatch("[1-9A-HJ-NP-Za-km-z]{32,44}", result) is None:
            return None
        return result[:GENESIS_CHARS]

    def head_in(self, call: Call, result: object) -> int | None:
        """The newest confirmed slot, if the call asked for it, or for the chain's time."""
        match call:
            case ("getSlot", {"commitment": "confirmed"}):
                return slot_in(result)
            case ("getMultipleAccounts", [address], {"commitment": "confirmed"}) if address == _CLOCK:
                match result:
                    case {"context": {"slot": slot}}:
                        return slot_in(slot)
        return None

    def time_in(self, result: object) -> int | None:
        """The time that the chain's clock shows."""
        try:
            _, [clock] = decode_accounts(result, 1)
            return None if clock is None else decode_clock(clock.data).time_s
        except BadAnswer:
            return None

    def kind_of(self, method: str, code: int, message: str) -> Kind:
        """What an error to a call of `method` means: what is not known is the trouble of who says it."""
        words = message.lower()
        if code == _PREFLIGHT_FAILED:
            return "answer"
        if code in _LIMITED_CODES or has(words, LIMITED_WORDS):
            return "limited"
        if code == _PARAMS_INVALID and method == _INDEXED:
            return "cannot"
        return "answer" if code in ANSWER_CODES else "cannot"

    def send_call(self, raw: bytes) -> Call:
        """Hands a signed transaction to a node: untried, and not sent again by itself.

        Who sends it has tried it, and sends it again for as long as it can land.
        """
        config = {"encoding": "base64", "skipPreflight": True, "maxRetries": 0}
        return ("sendTransaction", b64encode(raw).decode(), config)

    def verdict_of(self, error: RpcError) -> Verdict:
        """What a node's error to a signed transaction says about it.

        Nodes try a transaction only where they were not told to leave that.
        """
        named = _VERDICT_OF.get(_error_name(error.data))
        if named is not None:
            return named
        words = error.message.lower()
        return next((verdict for verdict, parts in _VERDICTS if has(words, parts)), "other")


def slot_in(result: object) -> int | None:
    """The number of a slot or of a block; None for what is none."""
    if isinstance(result, bool) or not isinstance(result, int) or not 0 <= result < 2**64:
        return None
    return result


def _error_name(data: Any) -> str:
    """What the chain calls an error: `{"err": "AlreadyProcessed"}`, or `{"err": {"Name": …}}`."""
    error = data.get("err") if isinstance(data, dict) else None
    if isinstance(error, dict):
        error = next(iter(error), None)
    return error if isinstance(error, str) else ""
