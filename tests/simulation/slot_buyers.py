"""Buyers on Solana under a seed: who pays as is asked, and who pays otherwise, too late, twice, or never."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, Final

import msgspec
import trio
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.transaction import VersionedTransaction

from payd.chains.solana.keys import token_account
from tests.crash.client import Answered
from tests.crash.process import Furnished
from tests.crash.shoppers import Door, Ledger, Told
from tests.live.solana import (
    BUYER,
    BUYER_2,
    CHAIN,
    DECIMALS,
    LAMPORTS,
    MERCHANT,
    MERCHANT_2,
    MINTS,
    POOR,
    LocalSolana,
    address,
    keypair,
    pay_by_link,
    pay_sol,
    pay_token,
    pubkey,
    tx_id_of,
)
from tests.live.solana_street import SIGN, signed
from tests.live.svm_methods import SvmNode
from tests.simulation.live_shopper import EXCUSED, LOOKS_AGAIN, PAUSE_MAX_S, REFUSED, LiveShopper
from tests.simulation.slots import Slots

PLACES: Final = (BUYER, BUYER_2, POOR)
# Merchants have several, and put one in the place of another.
OWN_WALLETS: Final = (MERCHANT, MERCHANT_2, 95)
# Who has SOL for the fee of a transaction of their own.
PAYERS: Final = (BUYER, BUYER_2)
# Of an amount that is paid instead of what was asked for.
PARTS: Final = ("0.5", "0.999", "1.001", "2")
# For any one payment.
ENOUGH: Final = 1_000 * 10**DECIMALS


class SlotBuyer(LiveShopper):
    """Creates payments, and does with each one or another thing that people do.

    Args:
        chain: Where their wallets send to.
    """

    def __init__(
        self,
        name: str,
        open_door: Callable[[], Door],
        ledger: Ledger,
        rng: Random,
        shops: Sequence[Furnished],
        chain: Slots,
    ) -> None:
        super().__init__(name, open_door, ledger, rng, shops)
        self._chain = chain
        self._before: str | None = None
        odd: tuple[Callable[[Told], Awaitable[None]], ...] = (
            self._pay_late,
            self._pay_late,
            self._pay_other_amount,
            self._pay_twice,
            self._pay_and_cancel,
            self._pay_to_another_wallet,
            self._pay_without_a_name,
            self._pay_by_hand,
            self._pay_by_hand,
            self._name_what_somebody_sent,
            self._pay_in_two_assets,
            self._pay_in_vain,
            self._spend_it_first,
            self._spend_it_first,
            self._pay_two_at_once,
            self._send_old_ones_again,
            self._confirm_late,
            self._sign_and_send,
            self._tell_of_what_is_not,
        )
        usual = (self._pay, self._pay, self._pay_by_code, self._pay_by_request)
        self._ways = (self._leave, self._cancel, self._cancel_as_buyer, *odd, *(usual * 4))

    # What is asked for.

    async def _pay(self, told: Told) -> None:
        """Sign, and have it brought."""
        if (made := await self._signed(told)) is not None:
            await self._confirm(told, *made)

    async def _pay_by_code(self, told: Told) -> None:
        """Scan a transfer request."""
        if (link := await self._link(told)) is not None:
            self._scan(link)

    async def _pay_by_request(self, told: Told) -> None:
        """Scan a transaction request."""
        place = self.rng.choice(PLACES)
        options = await self._offered(told, place)
        if not options:
            return
        asset = self.rng.choice(options)["amount"]["unit"].removeprefix("caip19/")
        path, asked_s = f"/v1/solana-pay/{told.payment_id}?asset={asset}", self._changes.now_s()
        given = await self.insist("POST", path, {"account": address(place)})
        if given.status == 200:
            raw = base64.b64decode(given.body["transaction"])
            self._note_paid(told, asset, raw, asked_s)
            await trio.sleep(self.rng.random() * PAUSE_MAX_S)
            self._chain.send(signed(raw, place))
        elif given.status not in (REFUSED | EXCUSED) and not self._is_gone(given):
            self.refuse(given, "request")

    # What is not.

    async def _pay_late(self, told: Told) -> None:
        if (link := await self._link(told)) is not None:
            await self._until_before_the_end(told, 200 - self.rng.random() * 250)
            self._scan(link)

    async def _confirm_late(self, told: Told) -> None:
        """Its blockhash is about to expire, or has."""
        if (made := await self._signed(told)) is not None:
            await trio.sleep(20 + self.rng.random() * 60)
            await self._confirm(told, *made)

    async def _pay_other_amount(self, told: Told) -> None:
        if (link := await self._link(told)) is not None:
            before, _, after = link.partition("amount=")
            amount, ampersand, rest = after.partition("&")
            other = float(amount) * float(self.rng.choice(PARTS))
            link = f"{before}amount={other:.6f}{ampersand}{rest}"
            self._scan(link)

    async def _pay_twice(self, told: Told) -> None:
        if (link := await self._link(told)) is not None:
            for _ in range(2):
                self._scan(link)
                await trio.sleep(self.rng.random() * PAUSE_MAX_S)

    async def _pay_and_cancel(self, told: Told) -> None:
        await self.rng.choice((self._pay, self._pay_by_code, self._pay_by_request))(told)
        await self._cancel_as_buyer(told)

    async def _pay_to_another_wallet(self, told: Told) -> None:
        """One of the merchants' too, of which another buyer was told, or nobody yet."""
        if (link := await self._link(told)) is not None:
            _, _, asked = link.partition("?")
            self._scan(f"solana:{address(self.rng.choice(OWN_WALLETS))}?{asked}")

    async def _pay_without_a_name(self, told: Told) -> None:
        """Nothing in it says what it is for, or only half of it does."""
        if (link := await self._link(told)) is not None:
            payer = self.rng.choice(PAYERS)
            halves = pay_by_link(_without_name(link), pubkey(payer)), pay_by_link(link, pubkey(payer))[1:]
            self._send(self.rng.choice(halves), payer)

    async def _pay_by_hand(self, told: Told) -> None:
        """Nothing in it says what it is for, but the merchant does."""
        if (link := await self._link(told)) is not None:
            await self._name(told, self._scan(_without_name(link)))

    async def _name_what_somebody_sent(self, told: Told) -> None:
        """The merchant takes another's transaction for this payment's."""
        known = list(self._chain.landed)
        if await self._offered(told, BUYER) and known:
            await self._name(told, self.rng.choice(known[-8:]))

    async def _pay_in_two_assets(self, told: Told) -> None:
        """Sign in one, and send another by a code."""
        made = await self._signed(told)
        link = await self._link(told)
        if made is None or link is None:
            return
        self._scan(link)
        await trio.sleep(self.rng.random() * PAUSE_MAX_S)
        await self._confirm(told, *made)

    async def _sign_and_send(self, told: Told) -> None:
        """Send what was signed oneself, beside or in place of having it brought."""
        if (made := await self._signed(told)) is not None:
            self._chain.send(made[1])
            if self.rng.random() < 0.6:
                await self._confirm(told, *made)

    async def _pay_in_vain(self, told: Told) -> None:
        """The transaction fails, and lands."""
        if (link := await self._link(told)) is not None:
            payer = self.rng.choice(PAYERS)
            asked = pay_by_link(link, pubkey(payer))
            self._send([*asked, _impossible(asked[-1])], payer)

    async def _pay_two_at_once(self, told: Told) -> None:
        """This payment and the one before in one transaction."""
        before, self._before = self._before, await self._link(told)
        if before is not None and self._before is not None:
            payer = self.rng.choice(PAYERS)
            both = (pay_by_link(link, pubkey(payer)) for link in (before, self._before))
            self._send([one for some in both for one in some], payer)

    async def _send_old_ones_again(self, told: Told) -> None:
        """Anybody may send what somebody signed, as often as they like."""
        await self._pay(told)
        for _ in range(4):
            await trio.sleep(self.rng.random() * PAUSE_MAX_S)
            for raw in self._chain.seen[-12:]:
                self._chain.send(raw)

    async def _spend_it_first(self, told: Told) -> None:
        """A buyer with just enough signs, and sends it to somebody else before it can be brought."""
        place = await self._new_wallet()
        if (made := await self._signed(told, place)) is None:
            return
        asset = made[0]["amount"]["unit"].rpartition(":")[2]
        spent = [
            pay_token(pubkey(place), pubkey(BUYER), mint, ENOUGH, program=program)
            for mint, program in MINTS.items()
            if str(mint) == asset
        ]
        self._send(spent or [pay_sol(pubkey(place), pubkey(BUYER), 9 * LAMPORTS)], place)
        await self._confirm(told, *made)

    async def _tell_of_what_is_not(self, told: Told) -> None:
        """Somebody else's transaction."""
        options = await self._offered(told, BUYER)
        known = list(self._chain.landed.values())
        if options and known:
            await self._confirm(told, self.rng.choice(options), self.rng.choice(known).raw)

    # How.

    async def _until_before_the_end(self, told: Told, seconds: float) -> None:
        """Wait until so long before the window closes, by the chain's clock."""
        await trio.sleep(max(0.0, told.expires_at - seconds - self._chain.tip.time_s))

    async def _new_wallet(self) -> int:
        """One that nobody has used, with some of everything."""
        place = self._chain.next_place()
        local = LocalSolana(SvmNode(self._chain))
        await local.fund(pubkey(place))
        for mint, program in MINTS.items():
            await local.give(pubkey(place), mint, ENOUGH, program)
        return place

    async def _signed(self, told: Told, place: int = 0) -> tuple[dict[str, Any], bytes] | None:
        """An option, and the transaction behind it with a buyer's signature; anybody's, if none is named."""
        place = place or self.rng.choice(PLACES)
        options = await self._offered(told, place)
        if not options:
            return None
        option = self.rng.choice(options)
        body, asked_s = (
            {"optionId": option["id"], "data": option["actions"][0]["data"]},
            self._changes.now_s(),
        )
        fetched = await self.insist("POST", f"/v1/gateway/payment/{told.payment_id}/fetch", body)
        if fetched.status != 200:
            if fetched.status not in (REFUSED | EXCUSED):
                self.refuse(fetched, "fetch")
            return None
        [action] = fetched.body["actions"]
        assert action["method"] == SIGN, action
        [asked] = msgspec.json.decode(action["params"])
        raw = base64.b64decode(asked["transaction"])
        self._note_paid(told, option["amount"]["unit"], raw, asked_s)
        await trio.sleep(self.rng.random() * PAUSE_MAX_S)
        return option, signed(raw, place)

    async def _offered(self, told: Told, place: int) -> list[dict[str, Any]]:
        """What a wallet is offered."""
        return await self._offers(told, f"{CHAIN}:{address(place)}")

    async def _link(self, told: Told) -> str | None:
        """A transfer request, in one asset or another; after a while; some look again by then."""
        links = await self._links(told)
        while links and self.rng.random() < LOOKS_AGAIN:
            await trio.sleep(self.rng.random() * 2 * PAUSE_MAX_S)
            links = await self._links(told) or links
        await trio.sleep(self.rng.random() * PAUSE_MAX_S)
        return self.rng.choice(links)["url"] if links else None

    async def _links(self, told: Told) -> list[dict[str, Any]]:
        asked_s = self._changes.now_s()
        found = await self.insist("GET", f"/v1/solana-pay/{told.payment_id}/links")
        if found.status not in (200, *REFUSED) and not (self.excuses(found) or self._is_gone(found)):
            self.refuse(found, "links")
        links: list[dict[str, Any]] = found.body["links"] if found.status == 200 else []
        for one in links:
            wallet = one["url"].removeprefix("solana:").partition("?")[0]
            self._note(told, one["amount"]["unit"], wallet, asked_s)
        return links

    def _is_gone(self, answered: Answered) -> bool:
        """Whether the shop takes nothing any more, as it may."""
        gone = self._changes.may_lack_routes(self.at.merchant_id, self._asked_s)
        return answered.status == 404 and gone

    def _wallet_in(self, option: dict[str, Any]) -> str:
        """The transaction says it, which is built later."""
        return ""

    def _note_paid(self, told: Told, unit: str, raw: bytes, asked_s: float) -> None:
        """Keep whom a transaction pays that a buyer is to sign."""
        wallet = paid_by(raw, unit.rpartition(":")[2])
        self._note(told, unit, wallet, asked_s)

    def _scan(self, link: str) -> str:
        """Do what a transfer request asks for; gives the transaction's id."""
        payer = self.rng.choice(PAYERS)
        return self._send(pay_by_link(link, pubkey(payer)), payer)

    def _send(self, instructions: Sequence[Instruction], payer: int, *others: int) -> str:
        """A transaction of the wallet's own, which others may sign too; gives its id."""
        fresh = Hash.from_string(self._chain.at("confirmed").hash)
        signers = map(keypair, (payer, *others))
        raw = transaction(instructions, *signers, fresh=fresh, is_legacy=self.rng.random() < 0.5)
        self._chain.send(raw)
        return tx_id_of(raw)

    async def _confirm(self, told: Told, option: dict[str, Any], raw: bytes) -> None:
        await self._results(told, option, [base64.b64encode(raw).decode()])


def paid_by(raw: bytes, reference: str) -> str:
    """The merchant's wallet that a transaction pays, in the token of this reference, or in SOL."""
    message = VersionedTransaction.from_bytes(raw).message
    keys, signers = message.account_keys, message.account_keys[: message.header.num_required_signatures]
    mints = [(mint, program) for mint, program in MINTS.items() if str(mint) == reference]
    named = [
        place
        for place in OWN_WALLETS
        if (token_account(pubkey(place), *mints[0]) if mints else pubkey(place)) in keys
    ]
    # One wallet of the merchants' may pay another.
    [paid] = [place for place in named if pubkey(place) not in signers] or named
    return address(paid)


def transaction(
    asked: Sequence[Instruction],
    *signers: Keypair,
    fresh: Hash,
    is_legacy: bool = True,
    tables: Sequence[AddressLookupTableAccount] = (),
) -> bytes:
    """Signed, in one form or the other; the first signer pays the fee."""
    payer = signers[0].pubkey()
    made: Message | MessageV0 = Message.new_with_blockhash(list(asked), payer, fresh)
    if tables or not is_legacy:
        made = MessageV0.try_compile(payer, list(asked), list(tables), fresh)
    return bytes(VersionedTransaction(made, list(signers)))


def _without_name(link: str) -> str:
    """A transfer request that says nothing of what it is for."""
    place, _, query = link.partition("?")
    return f"{place}?" + "&".join(
        one for one in query.split("&") if not one.startswith(("reference=", "memo="))
    )


def _impossible(transfer: Instruction) -> Instruction:
    """The same transfer over more than anybody has."""
    data = bytearray(transfer.data)
    at = 4 if len(data) == 12 else 1  # SOL's, or a token's
    data[at : at + 8] = (2**63).to_bytes(8, "little")
    return Instruction(transfer.program_id, bytes(data), list(transfer.accounts))
