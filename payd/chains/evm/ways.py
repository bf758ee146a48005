"""How an account can pay an amount on an EVM chain: by signatures that the relayer carries, or a transaction.

A signature is asked for where token, account and relayer can do it; else the account needs coins for the gas.
Nothing is asked of an account that it cannot pay.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import msgspec

from payd.chains.assets import Asset
from payd.chains.evm.actions import send_coin_action, send_token_action, sign_action
from payd.chains.evm.authorization import Authorization
from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.chains.evm.facts import Facts
from payd.chains.evm.signature import delegation_of
from payd.chains.evm.terms import Terms
from payd.chains.evm.tokens import Report, domain_of
from payd.core.caip import AccountId, canonical_account
from payd.core.option import WalletRpc
from payd.core.payment import Payment

CanRelay = Callable[[str], bool]
"""Whether the relayer would carry a payment of this account (canonical CAIP-10) now."""

# An authorization outlives its payment by this long: room to land again after a reorg.
AUTHORIZATION_GRACE_S: Final = 45 * 60

# What transfers cost at most, about: a token behind a proxy, to who never held it; a coin with 32 bytes.
TOKEN_GAS: Final = 100_000
COIN_GAS: Final = 25_000
# Gas may be dearer by the time that the buyer has read what the wallet says.
GAS_PRICE_ROOM: Final = Fraction(5, 4)


def sending_fee(token: str | None, gas_price: int) -> int:
    """About what a transfer of the token, or of the native coin, costs who sends it, with some room."""
    return int((COIN_GAS if token is None else TOKEN_GAS) * gas_price * GAS_PRICE_ROOM)


class Due(msgspec.Struct, frozen=True):
    """What is to be paid, by whom and to whom.

    Attributes:
        payment: What it is for.
        row: The asset.
        token: Its contract in lower case; None for the native coin.
        account: As the wallet writes it.
        destination: An address in lower case.
        amount: In smallest units.
        fee: The operator's part of it; None: the operator wants one that cannot be worked out.
    """

    payment: Payment
    row: Asset
    token: str | None
    account: AccountId
    destination: str
    amount: int
    fee: int | None = 0

    @property
    def buyer(self) -> str:
        """The account's address in lower case."""
        return self.account.address.lower()


class Ways:
    """The ways to pay on one chain.

    Args:
        terms: What the operator set.
        facts: What accounts have.
        can_relay: Asked for each signature that is offered.
    """

    def __init__(self, terms: Terms, facts: Facts, can_relay: CanRelay) -> None:
        self._terms = terms
        self._facts = facts
        self._can_relay = can_relay

    @property
    def signs(self) -> bool:
        """Whether anything is paid by signatures at all."""
        return self._terms.sponsor and self._terms.relayer is not None

    async def actions(self, due: Due, report: Report | None, now_ms: int) -> tuple[WalletRpc, ...] | None:
        """What the account must do; None when it cannot pay.

        Args:
            due: What is to be paid.
            report: What the token says; None for the native coin.
            now_ms: Unix milliseconds.

        Raises:
            ChainUnavailable: No node answers.
        """
        code = await self._facts.code(due.buyer, now_ms)
        if due.token is None or report is None:
            return await self._send_coin(due, code, now_ms)
        balance = await self._facts.balance(due.token, due.buyer, now_ms)
        if balance is None or balance < due.amount:
            return None
        if await self._can_sign(due, report, code, now_ms):
            signed = await self._sign(due, now_ms)
            if signed is not None:
                return signed
        return await self._send_token(due, due.token, code, now_ms)

    async def _can_sign(self, due: Due, report: Report, code: bytes, now_ms: int) -> bool:
        """Whether a signature of the account is good for the token, and somebody would carry it."""
        if not self.signs or not report.is_signable(due.row):
            return False
        if delegation_of(code) is not None:
            # The token asks the account's code, not its key.
            if not await self._facts.answers(due.buyer, now_ms):
                return False
        elif code and not report.takes_bytes:
            return False
        return self._can_relay(canonical_account(due.account))

    async def _sign(self, due: Due, now_ms: int) -> tuple[WalletRpc, ...] | None:
        """One signature, or two with a fee; None where a fee is mandatory and cannot be carried."""
        terms, domain = self._terms, domain_of(due.row, self._terms.chain)
        assert domain is not None, "the row is signable"
        fee = due.fee
        if fee and not await self._facts.has_multicall(now_ms):
            fee = None
        if fee is None and self._must_take_fee(due):
            return None
        main = Authorization(
            domain=domain,
            sender=due.buyer,
            recipient=due.destination,
            value=due.amount - (fee or 0),
            valid_before_s=due.payment.expires_at_ms // 1000 + AUTHORIZATION_GRACE_S,
            nonce=authorization_nonce(due.payment.id),
        )
        legs = [main]
        if fee and terms.fee is not None:
            nonce = authorization_nonce(due.payment.id, "fee")
            legs.append(msgspec.structs.replace(main, recipient=terms.fee.address, value=fee, nonce=nonce))
        return tuple(sign_action(terms.chain, due.account.address, leg) for leg in legs)

    async def _send_token(
        self, due: Due, token: str, code: bytes, now_ms: int
    ) -> tuple[WalletRpc, ...] | None:
        # Who pays for the gas of a smart wallet cannot be seen from here.
        is_contract = bool(code) and delegation_of(code) is None
        if self._must_take_fee(due) or not (is_contract or await self._has_coins(due, 0, now_ms)):
            return None
        tag = payment_tag(due.payment.id)
        action = send_token_action(
            self._terms.chain, due.account.address, token, due.destination, due.amount, tag
        )
        return (action,)

    async def _send_coin(self, due: Due, code: bytes, now_ms: int) -> tuple[WalletRpc, ...] | None:
        """From a key's account to a key's account: code at either may lose the tag, or refuse it."""
        is_contract = bool(code) and delegation_of(code) is None
        if self._must_take_fee(due) or is_contract or await self._facts.code(due.destination, now_ms):
            return None
        if not await self._has_coins(due, due.amount, now_ms):
            return None
        tag = payment_tag(due.payment.id)
        action = send_coin_action(self._terms.chain, due.account.address, due.destination, due.amount, tag)
        return (action,)

    def _must_take_fee(self, due: Due) -> bool:
        """Whether there is a fee that the payment may not go without."""
        return due.fee != 0 and self._terms.fee is not None and self._terms.fee.mandatory

    async def _has_coins(self, due: Due, besides: int, now_ms: int) -> bool:
        fee = sending_fee(due.token, await self._facts.gas_price(now_ms))
        return await self._facts.coins(due.buyer, now_ms) >= besides + fee
