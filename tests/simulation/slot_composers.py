"""Buyers on Solana under a seed who put together themselves what pays, or pay at an odd moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final

import trio
from solders.hash import Hash

from payd.chains.solana.keys import token_account
from tests.crash.process import Furnished
from tests.crash.shoppers import Door, Ledger, Told
from tests.live.solana import (
    BUYER,
    MERCHANT,
    MINTS,
    create_holding,
    keypair,
    pay_by_link,
    pubkey,
)
from tests.simulation.live_shopper import PAUSE_MAX_S
from tests.simulation.slot_buyers import ENOUGH, OWN_WALLETS, PAYERS, SlotBuyer, transaction
from tests.simulation.slot_composed import (
    Asked,
    and_close,
    asked_in,
    by_another_program,
    by_closing,
    in_two_parts,
    table_of,
    to_another_account,
    with_other_memos,
)
from tests.simulation.slots import Slots

# Before a window closes, by the chain's clock: what lands then is not listed yet as it closes.
LAST_S: Final = 12.0
# Between payments of somebody who is impatient.
ROW_MAX_S: Final = 4.0


class SlotComposer(SlotBuyer):
    """Does all that a buyer does, and more.

    Args:
        chain: Where their wallets send to.
        cut_power: Ends the house that answers.
    """

    def __init__(
        self,
        name: str,
        open_door: Callable[[], Door],
        ledger: Ledger,
        rng: Random,
        shops: Sequence[Furnished],
        chain: Slots,
        cut_power: Callable[[], None],
    ) -> None:
        super().__init__(name, open_door, ledger, rng, shops, chain)
        self._cut_power = cut_power
        more: tuple[Callable[[Told], Awaitable[None]], ...] = (
            self._pay_in_two_parts,
            self._pay_with_other_memos,
            self._pay_with_other_memos,
            self._pay_by_another_program,
            self._pay_to_another_account,
            self._pay_by_a_table,
            self._pay_and_create,
            self._pay_oneself,
            self._pay_and_close,
            self._sign_and_close,
            *((self._pay_at_the_last_moment,) * 9),
            *((self._pay_in_a_row,) * 3),
            *((self._confirm_before_a_death,) * 5),
        )
        self._ways += more

    # Composed.

    async def _pay_in_two_parts(self, told: Told) -> None:
        if (asked := await self._asked(told)) is not None:
            payer = self.rng.choice(PAYERS)
            self._send(in_two_parts(asked, pubkey(payer), self.rng), payer)

    async def _pay_with_other_memos(self, told: Told) -> None:
        if (asked := await self._asked(told)) is not None:
            payer = self.rng.choice(PAYERS)
            self._send(with_other_memos(asked, pubkey(payer), self.rng), payer)

    async def _pay_by_another_program(self, told: Told) -> None:
        """Nothing at the top of the transaction moves anything to the merchant."""
        if (asked := await self._asked(told)) is None:
            return
        payer = self.rng.choice(PAYERS)
        if asked.mint is None:
            new = self._chain.next_place()
            self._send(by_closing(asked, pubkey(payer), pubkey(new)), payer, new)
        else:
            [paid] = [place for place in OWN_WALLETS if pubkey(place) == asked.to]
            self._send(by_another_program(asked, pubkey(payer)), payer, paid)

    async def _pay_to_another_account(self, told: Told) -> None:
        asked = await self._asked(told)
        if asked is not None and asked.mint is not None and asked.to == pubkey(MERCHANT):
            payer = self.rng.choice(PAYERS)
            self._send(to_another_account(asked, pubkey(payer)), payer)

    async def _pay_by_a_table(self, told: Told) -> None:
        """Whom it names stands in a lookup table."""
        if (link := await self._link(told)) is None:
            return
        payer = self.rng.choice(PAYERS)
        instructions = pay_by_link(link, pubkey(payer))
        named = {one.pubkey: None for asked in instructions for one in asked.accounts}
        table, account = table_of(pubkey(self._chain.next_place()), list(named))
        self._chain.put(table.key, account)
        fresh = Hash.from_string(self._chain.at("confirmed").hash)
        self._chain.send(transaction(instructions, keypair(payer), fresh=fresh, tables=[table]))

    async def _pay_and_create(self, told: Told) -> None:
        """The merchant's token account is made first, unless it is there."""
        if (link := await self._link(told)) is None:
            return
        asked, payer = asked_in(link), self.rng.choice(PAYERS)
        made = (
            [] if asked.mint is None else [create_holding(pubkey(payer), asked.to, asked.mint, asked.program)]
        )
        self._send([*made, *pay_by_link(link, pubkey(payer))], payer)

    # Whose.

    async def _pay_oneself(self, told: Told) -> None:
        """A merchant's own wallet pays the merchant, which moves nothing, or something to another one."""
        if self.rng.random() < 0.5:
            if (made := await self._signed(told, MERCHANT)) is not None:
                await self._confirm(told, *made)
        elif (link := await self._link(told)) is not None:
            self._send(pay_by_link(link, pubkey(MERCHANT)), MERCHANT)

    async def _pay_and_close(self, told: Told) -> None:
        """A buyer has no use for the account any more, at once or a moment later."""
        place = await self._new_wallet()
        if (link := await self._link(told)) is None:
            return
        asked, wallet = asked_in(link), pubkey(place)
        if asked.mint is None:
            return
        closing = and_close(asked.mint, asked.program, wallet, ENOUGH - asked.units, pubkey(BUYER))
        if self.rng.random() < 0.5:
            self._send([*pay_by_link(link, wallet), *closing], place)
            return
        self._send(pay_by_link(link, wallet), place)
        await trio.sleep(self.rng.random() * PAUSE_MAX_S)
        self._send(closing, place)

    async def _sign_and_close(self, told: Told) -> None:
        """What was signed is brought before, after, or never."""
        place = await self._new_wallet()
        if (made := await self._signed(told, place)) is None:
            return
        await self._confirm(told, *made)
        await trio.sleep(self.rng.random() * PAUSE_MAX_S / 2)
        for mint, program in MINTS.items():
            account = self._chain.account(token_account(pubkey(place), mint, program))
            if account is not None:
                left = int(self._chain.holding(account)["tokenAmount"]["amount"])
                self._send(and_close(mint, program, pubkey(place), left, pubkey(BUYER)), place)

    # When.

    async def _pay_at_the_last_moment(self, told: Told) -> None:
        if (link := await self._link(told)) is not None:
            await self._until_before_the_end(told, self.rng.random() * LAST_S)
            self._scan(link)

    async def _pay_in_a_row(self, told: Told) -> None:
        """Somebody sees nothing happen, and pays again."""
        if (link := await self._link(told)) is not None:
            for _ in range(4):
                self._scan(link)
                await trio.sleep(self.rng.random() * ROW_MAX_S)

    async def _confirm_before_a_death(self, told: Told) -> None:
        """What was signed is on its way, and nobody looks where it lands."""
        if (made := await self._signed(told)) is not None:
            await self._confirm(told, *made)
            await trio.sleep(self.rng.random())
            self._cut_power()

    async def _asked(self, told: Told) -> Asked | None:
        link = await self._link(told)
        return None if link is None else asked_in(link)
