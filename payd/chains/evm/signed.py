"""Whether signatures pay a quote: what the token itself says to the exact call that the relayer would make.

A signature is recovered here only to refuse what a key's account cannot have signed. The verdict is for the
token, which alone knows its deny list, its pause, and what it asks of smart wallets.

Source: DESIGN.md, "6. The API: what SPEC.md leaves open"; DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from payd.chains.asking import read, unavailable
from payd.chains.base import Accepted, Misaligned, Refused, Unseen, Verdict
from payd.chains.evm.abi import (
    MULTICALL3,
    Call,
    aggregate3_call,
    authorization_state_call,
    balance_of_call,
    decode_aggregate3,
    decode_bool,
)
from payd.chains.evm.asking import decoded, eth_call, refused_by_contract, said
from payd.chains.evm.authorization import (
    Authorization,
    recover_authorizer,
    transfer_with_authorization_call,
)
from payd.chains.evm.codec import from_data
from payd.chains.evm.commitment import Commitments
from payd.chains.evm.signature import is_6492, normalise_signature
from payd.chains.rpc import Call as RpcCall
from payd.chains.rpc import Rpc, RpcError
from payd.chains.rpc_errors import BadAnswer
from payd.core.caip import canonical_account, parse_account, to_checksum_address
from payd.core.errors import InvalidParams, InvalidSignature, PaydError, QuoteExpired
from payd.core.option import Quote, alignment
from payd.core.payment import Payment
from payd.core.relay import RelayJob

# A signature that ends sooner would end while it waits for its block.
TIME_LEFT_MIN_S: Final = 120

WRONG_SIGNATURE: Final = (
    "The signature is not that of the buyer's account. Sign again; the payment is still open."
)
NOT_DEPLOYED: Final = (
    "The smart wallet is not deployed yet, and its signature cannot be used before it is. Send any"
    " transaction with it, or pay with another account; the payment is still open."
)
ASK_AGAIN: Final = "The quote is too old. Ask for options again."
TAKES_A_PART: Final = (
    "The token does not bring the whole amount to the merchant, so that nothing can be paid with it."
)


class _Weighed(msgspec.Struct, frozen=True):
    """What a node says to signatures: whether the account has code, and what the call would do.

    Attributes:
        used: Of each authorization, whether it was used or cancelled before.
        verdict: The result of the exact call.
        arrives: What the call would bring to the merchant; None where that cannot be seen.
    """

    has_code: bool
    used: tuple[bool, ...]
    verdict: object
    arrives: int | None


class Signed:
    """The checks of signatures of one chain.

    Args:
        rpc: Its nodes.
        relayer: Who would make the call, in lower case; None: nobody any more.
        commitments: Makes what is stored of those that are good.
    """

    def __init__(self, rpc: Rpc, relayer: str | None, commitments: Commitments) -> None:
        self._rpc = rpc
        self._relayer = relayer
        self._commitments = commitments

    async def check(
        self,
        payment: Payment,
        quote: Quote,
        legs: Sequence[Authorization],
        signatures: Sequence[bytes],
        now_ms: int,
    ) -> Verdict:
        """Whether signatures pay a quote; as many as there are authorizations.

        Args:
            payment: What is paid.
            quote: What was handed out.
            legs: What it asks to sign, the merchant's first.
            signatures: In the same order, each as the wallet gave it.
            now_ms: Unix milliseconds.

        Raises:
            ChainUnavailable: No node answers.
        """
        signed = [normalise_signature(signature) for signature in signatures]
        if any(map(is_6492, signed)):
            return Refused(InvalidSignature(NOT_DEPLOYED))
        if self._relayer is None or legs[0].valid_before_s < now_ms // 1000 + TIME_LEFT_MIN_S:
            return Refused(QuoteExpired(ASK_AGAIN))
        weighed = await self._weigh(self._relayer, legs, signed)
        match await self._alignment(self._relayer, legs, signed, weighed):
            case "misaligned":
                return Misaligned()
            case "refused" if not weighed.has_code:
                return Refused(InvalidSignature(WRONG_SIGNATURE))
        if weighed.used[0]:
            # Somebody brought it to the chain before us, or the buyer took it back: the chain shows which.
            return Unseen()
        due = legs
        if any(weighed.used):
            # A stranger took the fee's to the chain; what pays the merchant is still to come.
            pairs = [
                pair
                for pair, used in zip(zip(legs, signed, strict=True), weighed.used, strict=True)
                if not used
            ]
            due, signed = [leg for leg, _ in pairs], [each for _, each in pairs]
            weighed = await self._weigh(self._relayer, due, signed)
        problem = _problem(weighed, legs[0].value)
        if problem is not None:
            return Refused(problem)
        target, data = relay_call(due, signed)
        job = RelayJob(
            chain=str(self._commitments.chain),
            buyer=canonical_account(parse_account(quote.account)),
            target=to_checksum_address(target),
            data=data,
            valid_until_s=legs[0].valid_before_s,
        )
        return Accepted(await self._commitments.signed(payment, quote, legs, now_ms), job)

    async def _weigh(self, relayer: str, legs: Sequence[Authorization], signed: Sequence[bytes]) -> _Weighed:
        main = legs[0]
        token, buyer = main.domain.token, main.sender
        calls: list[RpcCall] = [("eth_getCode", buyer, "latest")]
        calls.append(eth_call(*relay_call(legs, signed), sender=relayer))
        calls.append(eth_call(MULTICALL3, _between_balances(legs, signed), sender=relayer))
        calls += [eth_call(token, authorization_state_call(buyer, leg.nonce)) for leg in legs]
        code, verdict, between, *states = await read(self._rpc, calls)
        used = [decoded(state, decode_bool) for state in states]
        try:
            has_code = bool(from_data(code, "the code"))
        except BadAnswer as bad:
            raise unavailable(bad) from bad
        if None in used:
            raise unavailable(f"the token {token} does not tell of used authorizations")
        if isinstance(verdict, RpcError) and not refused_by_contract(verdict):
            raise unavailable(verdict)
        return _Weighed(has_code, tuple(map(bool, used)), verdict, _arrives(between, len(legs)))

    async def _alignment(
        self, relayer: str, legs: Sequence[Authorization], signed: Sequence[bytes], weighed: _Weighed
    ) -> str:
        """Whether each signature is for the authorization in its place, as far as that can be told."""
        if not weighed.has_code:
            return alignment(
                [[recover_authorizer(leg, each) == leg.sender for each in signed] for leg in legs]
            )
        if len(legs) == 1 or any(weighed.used) or not isinstance(weighed.verdict, RpcError):
            return "aligned"
        # Only the account itself knows its signatures: each is tried for each authorization.
        token = legs[0].domain.token
        calls = [
            eth_call(token, transfer_with_authorization_call(leg, each), sender=relayer)
            for leg in legs
            for each in signed
        ]
        results = await read(self._rpc, calls)
        fits = [not isinstance(result, RpcError) for result in results]
        count = len(signed)
        return alignment([fits[at : at + count] for at in range(0, len(fits), count)])


def relay_call(legs: Sequence[Authorization], signed: Sequence[bytes]) -> tuple[str, bytes]:
    """The call that carries out the authorizations, all or none: its target and data."""
    if len(legs) == 1:
        return legs[0].domain.token, transfer_with_authorization_call(legs[0], signed[0])
    return MULTICALL3, aggregate3_call(_calls(legs, signed))


def _calls(legs: Sequence[Authorization], signed: Sequence[bytes]) -> list[Call]:
    return [
        Call(leg.domain.token, transfer_with_authorization_call(leg, each), may_fail=False)
        for leg, each in zip(legs, signed, strict=True)
    ]


def _between_balances(legs: Sequence[Authorization], signed: Sequence[bytes]) -> bytes:
    """The same between two looks at what the merchant has, on a chain with `MULTICALL3`."""
    look = Call(legs[0].domain.token, balance_of_call(legs[0].recipient), may_fail=False)
    return aggregate3_call([look, *_calls(legs, signed), look])


def _arrives(between: object, count: int) -> int | None:
    """How much more the merchant has afterwards."""
    returned = decoded(between, lambda data: decode_aggregate3(data, count + 2))
    if returned is None:
        return None
    before, after = returned[0].data, returned[-1].data
    return int.from_bytes(after, "big") - int.from_bytes(before, "big")


def _problem(weighed: _Weighed, value: int) -> PaydError | None:
    if isinstance(weighed.verdict, RpcError):
        words = said(weighed.verdict)
        told = f"The token refuses it: {words}." if words else "The token refuses it."
        return InvalidSignature(f"{told} Sign again; the payment is still open.")
    if weighed.arrives not in (None, value):
        return InvalidParams(TAKES_A_PART)
    return None
