"""Whether a chain would carry out a call now: tried on a node right before it is sent, because it costs gas.

Source: DESIGN.md, "10. Live realm"; EIP-2028.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from payd.chains.evm.asking import refused_by_contract
from payd.chains.evm.codec import from_count, to_data
from payd.chains.evm.legs import call_of, is_used, legs_of, says_used, state_read
from payd.chains.rpc import Call, Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.chains.rpc_wire import Results
from payd.chains.witnesses import WITNESSES, heard, needed
from payd.core.gas import gas_limit

WORDS_MAX: Final = 200
# What any transaction costs before it does anything, and each byte of its calldata.
_GAS_FIRST: Final = 21_000
_GAS_ZERO: Final = 4
_GAS_BYTE: Final = 16


class Trial(msgspec.Struct, frozen=True):
    """How a call fared.

    Attributes:
        verdict: go: send it. used: nothing is left to carry out. refused: the contract says no. unknown: the
            node could not tell.
        target: What to call: of several authorizations, those that are left.
        data: Its calldata.
        gas: To allow for it.
        words: Why not, for people.
    """

    verdict: Literal["go", "used", "refused", "unknown"]
    target: str = ""
    data: bytes = b""
    gas: int = 0
    words: str = ""


async def try_calls(rpc: Rpc, sender: str, calls: Sequence[tuple[str, bytes]], gas_max: int) -> list[Trial]:
    """Try each call, a target and its calldata, for itself and on the newest block.

    Raises:
        NodesDown: No node answers.
    """
    left = await _unused(rpc, calls)
    asked = [call for call in left if isinstance(call, tuple)]
    answers = iter(await rpc.batch([read for call in asked for read in _reads(sender, *call)]))
    return [
        call if isinstance(call, Trial) else _judged(call, next(answers), next(answers), gas_max)
        for call in left
    ]


async def by_two(rpc: Rpc, sender: str, call: tuple[str, bytes], gas_max: int) -> Trial | None:
    """The trial of a call that one node judged wrongly, maybe, by the word of two; None: no two say go.

    With the most gas that one of them names: too little is spent for nothing.
    """
    states = [state_read(leg) for leg in legs_of(*call)]
    answers = await rpc.ask_all([*states, *_reads(sender, *call)])
    trials = [
        _judged(call, returned, estimate, gas_max)
        for _, (*used, returned, estimate) in answers
        if not any(map(says_used, used))
    ]
    going = [trial for trial in trials if trial.verdict == "go"]
    return max(going, key=lambda trial: trial.gas) if len(going) >= WITNESSES else None


async def is_refused(rpc: Rpc, sender: str, target: str, data: bytes) -> bool:
    """Whether the contract refuses the call for good, by the word of two nodes, where there are two.

    What somebody else has brought to the chain is refused as well, and is not over.
    """
    states = [state_read(leg) for leg in legs_of(target, data)]

    def refuses(results: Results) -> bool:
        *used, said = results
        return refused_by_contract(said) and not any(map(says_used, used))

    said = await heard(rpc, [*states, _reads(sender, target, data)[0]], refuses)
    return sum(said) >= needed(rpc)


async def _unused(rpc: Rpc, calls: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes] | Trial]:
    """Each call without those of its authorizations that were used; a verdict where that is the answer."""
    legs = [legs_of(*call) for call in calls]
    answers = iter(await rpc.batch([state_read(leg) for each in legs for leg in each]))
    left: list[tuple[str, bytes] | Trial] = []
    for call, each in zip(calls, legs, strict=True):
        said = [next(answers) for _ in each]
        if any(isinstance(one, RpcError) for one in said):
            left.append(_unknown(next(one for one in said if isinstance(one, RpcError))))
            continue
        try:
            unused = [leg for leg, one in zip(each, said, strict=True) if not is_used(one)]
        except BadAnswer as bad:
            left.append(_unknown(bad))
            continue
        if each and not unused:
            left.append(Trial("used"))
        else:
            left.append(call if len(unused) == len(each) else call_of(unused))
    return left


def _reads(sender: str, target: str, data: bytes) -> tuple[Call, Call]:
    asked = {"from": sender, "to": target, "data": to_data(data)}
    return ("eth_call", asked, "latest"), ("eth_estimateGas", asked)


def _judged(call: tuple[str, bytes], returned: object, estimate: object, gas_max: int) -> Trial:
    for said in (returned, estimate):
        if isinstance(said, RpcError):
            if refused_by_contract(said):
                return Trial("refused", *call, words=_plain(said))
            return _unknown(said)
    try:
        estimated = from_count(estimate, "the estimate")
        if estimated < (least := _least_gas(call[1])):
            raise BadAnswer(f"the estimate is {estimated}, and no such call needs less than {least}")
        gas = gas_limit(estimated)
    except BadAnswer as bad:
        return _unknown(bad)
    if gas > gas_max:
        return Trial("refused", *call, words=f"It needs {gas} units of gas, and {gas_max} are allowed.")
    return Trial("go", *call, gas=gas)


def _least_gas(data: bytes) -> int:
    """What nodes ask at least of a transaction with that calldata: none takes one that allows for less."""
    zeros = data.count(0)
    return _GAS_FIRST + _GAS_ZERO * zeros + _GAS_BYTE * (len(data) - zeros)


def _unknown(error: RpcError | BadAnswer) -> Trial:
    return Trial("unknown", words=_plain(error))


def _plain(error: RpcError | BadAnswer) -> str:
    """A node's words, which end up before a merchant's eyes."""
    words = error.message if isinstance(error, RpcError) else str(error)
    return "".join(char if char.isprintable() else " " for char in words)[:WORDS_MAX]
