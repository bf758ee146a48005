"""Buyers under a seed: who pays what is asked for, and who pays something else, too late, twice, or never."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

import trio

from payd.chains.evm.binding import TRANSFER_BYTES
from tests.crash.process import Furnished
from tests.crash.shoppers import Door, Ledger, Told
from tests.simulation.chain import Sent
from tests.simulation.live_shopper import LATE_S, PAUSE_MAX_S, LiveShopper
from tests.simulation.nodes import CHAIN
from tests.simulation.wallets import BUYERS, OWN_WALLETS, WRAPPER, Wallet, paid_by

SIGNS: Final = "eth_signTypedData_v4"


class Buyer(LiveShopper):
    """Creates payments, and does with each one or another thing that people do.

    Args:
        wallet: Opens that of an account.
    """

    def __init__(
        self,
        name: str,
        open_door: Callable[[], Door],
        ledger: Ledger,
        rng: Random,
        shops: Sequence[Furnished],
        wallet: Callable[[str], Wallet],
    ) -> None:
        super().__init__(name, open_door, ledger, rng, shops)
        self._open_wallet = wallet
        self._before: tuple[str, dict[str, Any]] | None = None
        odd: tuple[Callable[[Told], Awaitable[None]], ...] = (
            self._pay_late,
            self._pay_late,
            self._pay_late,
            self._pay_other_amount,
            self._pay_twice,
            self._pay_and_cancel,
            self._pay_from_elsewhere,
            self._pay_to_another_wallet,
            self._pay_without_a_name,
            self._pay_by_hand,
            self._pay_by_hand,
            self._name_what_somebody_sent,
            self._pay_two_at_once,
            self._pay_in_vain,
            self._pay_otherwise_after_all,
            self._pay_otherwise_after_all,
            self._tell_of_what_is_not,
        )
        self._ways = (self._leave, self._cancel, self._cancel_as_buyer, *odd, *(self._pay for _ in odd))

    # What is asked for.

    async def _pay(self, told: Told) -> None:
        if (asked := await self._asked(told, signing=True)) is not None:
            wallet, option = asked
            [action] = option["actions"]
            if action["method"] == SIGNS:
                await self._sign(told, wallet, option)
                return
            sent = self._send(wallet, wallet.transaction(action))
            if self.rng.random() < 0.7:
                await self._confirm(told, option, sent.hash)

    async def _sign(self, told: Told, wallet: Wallet, option: dict[str, Any]) -> None:
        """Sign, and have it brought; sometimes by somebody else, before or beside the house."""
        [action] = option["actions"]
        if self.rng.random() < 0.2:
            self._send(wallet, wallet.brought(action))
            if self.rng.random() < 0.5:
                return
        await self._confirm(told, option, wallet.signature(action))

    # What is not.

    async def _pay_late(self, told: Told) -> None:
        if (asked := await self._asked(told)) is not None:
            wallet, option = asked
            await trio.sleep(LATE_S + self.rng.random() * 250)
            sent = self._send(wallet, wallet.transaction(option["actions"][0]))
            if self.rng.random() < 0.5:
                await self._confirm(told, option, sent.hash)

    async def _pay_other_amount(self, told: Told) -> None:
        if (asked := await self._asked(told)) is not None:
            wallet, option = asked
            due = wallet.transaction(option["actions"][0])
            part = self.rng.choice((0.5, 0.999, 1.001, 2))
            sent = self._send(wallet, wallet.of_other_amount(due, part))
            if self.rng.random() < 0.5:
                await self._confirm(told, option, sent.hash)

    async def _pay_twice(self, told: Told) -> None:
        if (asked := await self._asked(told)) is not None:
            wallet, option = asked
            hashes = []
            for _ in range(2):
                hashes.append(self._send(wallet, wallet.transaction(option["actions"][0])).hash)
                await trio.sleep(self.rng.random() * PAUSE_MAX_S)
            await self._confirm(told, option, self.rng.choice(hashes))

    async def _pay_and_cancel(self, told: Told) -> None:
        await self._pay(told)
        await self._cancel_as_buyer(told)

    async def _pay_from_elsewhere(self, told: Told) -> None:
        """From an account that was not asked, or by a contract."""
        if (asked := await self._asked(told)) is not None:
            wallet, option = asked
            other = self._open_wallet(self.rng.choice(BUYERS))
            due = wallet.transaction(option["actions"][0])
            sent = self._send(other, other.signed(due.to, due.input, due.value))
            if self.rng.random() < 0.5:
                await self._confirm(told, option, sent.hash)

    async def _pay_to_another_wallet(self, told: Told) -> None:
        """One of the merchants' too, of which another buyer was told, or nobody yet."""
        if (asked := await self._asked(told)) is not None:
            wallet, option = asked
            due = wallet.transaction(option["actions"][0])
            sent = self._send(wallet, wallet.to_another(due, self.rng.choice(OWN_WALLETS)))
            if self.rng.random() < 0.5:
                await self._confirm(told, option, sent.hash)

    async def _pay_without_a_name(self, told: Told) -> None:
        """Nothing in it says what it is for."""
        if (asked := await self._asked(told)) is not None:
            wallet, option = asked
            due = wallet.transaction(option["actions"][0])
            data = due.input[:TRANSFER_BYTES] if due.logs else b""
            sent = self._send(wallet, wallet.signed(due.to, data, due.value))
            if self.rng.random() < 0.5:
                await self._confirm(told, option, sent.hash)

    async def _pay_by_hand(self, told: Told) -> None:
        """Nothing in it says what it is for, but the merchant does; sometimes of one more that pays, too."""
        if (asked := await self._asked(told)) is not None:
            wallet, option = asked
            due = wallet.transaction(option["actions"][0])
            data = due.input[:TRANSFER_BYTES] if due.logs else b""
            sent = [self._send(wallet, wallet.signed(due.to, data, due.value))]
            if self.rng.random() < 0.3:
                data = self.rng.choice((due.input, data))
                sent.append(self._send(wallet, wallet.signed(due.to, data, due.value)))
            for one in self.rng.sample(sent, len(sent)):
                await self._name(told, one.hash)

    async def _name_what_somebody_sent(self, told: Told) -> None:
        """The merchant takes another's transaction for this payment's."""
        if (asked := await self._asked(told)) is not None:
            wallet, _ = asked
            known = sorted(one.hash for _, one in wallet.chain.mined())
            if known:
                await self._name(told, self.rng.choice(known[-8:]))

    async def _pay_two_at_once(self, told: Told) -> None:
        """This payment and the one before in one transaction; sometimes it moves money for one alone."""
        before, self._before = self._before, None
        if (asked := await self._asked(told, coin=False)) is None:
            return
        wallet, option = asked
        self._before = told.payment_id, option["actions"][0]
        due = [wallet.transaction(option["actions"][0], checked=False)]
        if before is not None:
            due.append(wallet.transaction(before[1], checked=False))
        logs = tuple(log for one in due for log in one.logs)
        if self.rng.random() < 0.3:
            logs = logs[:1]
        called = b"".join(bytes(4) + one.input for one in due)
        sent = self._send(wallet, replace(wallet.signed(WRAPPER, called, 0), logs=logs))
        if self.rng.random() < 0.5:
            await self._confirm(told, option, sent.hash)

    async def _pay_in_vain(self, told: Told) -> None:
        """The transaction fails."""
        if (asked := await self._asked(told)) is not None:
            wallet, option = asked
            sent = replace(wallet.transaction(option["actions"][0]), status=0, logs=())
            await self._confirm(told, option, self._send(wallet, sent).hash)

    async def _pay_otherwise_after_all(self, told: Told) -> None:
        """Tell of a transaction, and have the wallet replace it by one that pays in another asset."""
        wallet, options = await self._offered(told)
        options = [one for one in options if one["actions"][0]["method"] != SIGNS]
        if len({one["amount"]["unit"] for one in options}) < 2:
            return
        first, second = self.rng.sample(options, 2)
        sent = self._send(wallet, wallet.transaction(first["actions"][0]))
        await self._confirm(told, first, sent.hash)
        if sent.hash in wallet.chain.pool:
            other = wallet.transaction(second["actions"][0])
            self._send(wallet, replace(other, nonce=sent.nonce))

    async def _tell_of_what_is_not(self, told: Told) -> None:
        """Somebody else's transaction, or nobody's."""
        if (asked := await self._asked(told)) is not None:
            wallet, option = asked
            known = sorted(one.hash for _, one in wallet.chain.mined())
            await self._confirm(told, option, self.rng.choice([*known, "0x" + "77" * 32]))

    # How.

    async def _asked(
        self, told: Told, *, coin: bool = True, signing: bool = False
    ) -> tuple[Wallet, dict[str, Any]] | None:
        """A wallet, and what it is offered in one asset or another; after a while, as people are.

        Args:
            told: The payment.
            coin: Whether it may be the chain's own coin.
            signing: Whether it may be something to sign; else it is something to send.
        """
        wallet, options = await self._offered(told)
        options = [
            one
            for one in options
            if (coin or "erc20" in one["amount"]["unit"])
            and (signing or one["actions"][0]["method"] != SIGNS)
        ]
        return (wallet, self.rng.choice(options)) if options else None

    async def _offered(self, told: Told) -> tuple[Wallet, list[dict[str, Any]]]:
        """A wallet, and all that it is offered."""
        wallet = self._open_wallet(self.rng.choice(BUYERS))
        return wallet, await self._offers(told, f"{CHAIN}:{wallet.address}")

    def _wallet_in(self, option: dict[str, Any]) -> str:
        [action] = option["actions"]
        return paid_by(action)

    def _send(self, wallet: Wallet, sent: Sent) -> Sent:
        wallet.chain.send(sent)
        return sent

    async def _confirm(self, told: Told, option: dict[str, Any], *results: str) -> None:
        await self._results(told, option, results)
