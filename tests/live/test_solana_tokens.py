"""Tokens of Token-2022 as issuers make them: paid with exactly, or not offered, and everybody is told why.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from solders.pubkey import Pubkey

from payd.chains.solana.extensions import Kind
from payd.chains.solana.keys import TOKEN_2022
from tests.chains.solana.tampering import OF_HOLDINGS
from tests.chains.solana.vm import PYUSD_EXTENSIONS
from tests.live.handed import Handed, hand_out
from tests.live.solana import (
    BUYER,
    CHAIN,
    ISSUER,
    MERCHANT,
    MERCHANT_2,
    MINTED,
    OPERATOR,
    POOR,
    PYUSD,
    PYUSD_MINT,
    USDC,
    USDC_MINT,
    LocalSolana,
    extension,
    keypair,
    memo,
    pay_by_link,
    pay_token,
    pubkey,
)
from tests.live.solana_street import FEE_PAYER, SolanaStreet, open_solana_street
from tests.terminal import Terminal

pytestmark = pytest.mark.real_time

AMOUNT: Final = 25_000_000
KEY: Final = bytes(pubkey(ISSUER))
PAYERS: Final = {"our fee": POOR, "the buyer's fee": BUYER}


def fees(older: int, newer: int, since: int = 0) -> bytes:
    """A fee in hundredths of a percent, and the one that counts from an epoch on."""
    most = 10**9
    each = [struct.pack("<QQH", 0, most, older), struct.pack("<QQH", since, most, newer)]
    return extension(Kind.TRANSFER_FEE_CONFIG, KEY + KEY + bytes(8) + b"".join(each))


REFUSED: Final = {
    "a fee": (fees(100, 100), "the token takes a fee of each transfer"),
    "a fee from the next epoch on": (fees(0, 100, since=1), "the token takes a fee of each transfer"),
    "a hook": (extension(Kind.TRANSFER_HOOK, KEY + KEY), "the token calls a program of its issuer"),
    "no transfers": (extension(Kind.NON_TRANSFERABLE, b""), "the token cannot be transferred"),
    "accounts that start frozen": (
        extension(Kind.DEFAULT_ACCOUNT_STATE, b"\x02"),
        "the token freezes each new account",
    ),
    "a pause": (extension(Kind.PAUSABLE, KEY + b"\x01"), "the token is paused"),
    "interest": (extension(Kind.INTEREST_BEARING_CONFIG, bytes(52)), "other amounts than those that move"),
    "a scale": (extension(Kind.SCALED_UI_AMOUNT, bytes(56)), "other amounts than those that move"),
    "something new": (extension(99, b"\x01"), "an extension that payd does not know: number 99"),
    "something old of a new form": (
        extension(Kind.PAUSABLE, KEY),
        "an extension of an unknown form: pausable",
    ),
}


@pytest.fixture
async def street(tmp_path: Path, solana: LocalSolana) -> AsyncIterator[SolanaStreet]:
    """Its blocks come when they are asked for."""
    async with open_solana_street(tmp_path / "house", solana) as opened:
        yield opened


@pytest.fixture(params=PAYERS)
def place(request: pytest.FixtureRequest) -> int:
    return PAYERS[request.param]


async def furnish_pyusd(
    chain: LocalSolana, extensions: bytes = PYUSD_EXTENSIONS, of_holdings: bytes = OF_HOLDINGS
) -> None:
    """PYUSD with these extensions, and those that follow from them in the accounts of who has any."""
    await chain.mint(PYUSD_MINT, TOKEN_2022, extensions=extensions)
    for one in (BUYER, POOR):
        await chain.give(pubkey(one), PYUSD_MINT, MINTED, TOKEN_2022, of_holdings)
    await chain.give(pubkey(MERCHANT), PYUSD_MINT, 0, TOKEN_2022, of_holdings)


async def assets(street: SolanaStreet, payment_id: str, place: int) -> set[str]:
    """What an account is offered to pay in."""
    offered = await street.options(payment_id, place)
    return {one["amount"]["unit"].removeprefix("caip19/") for one in offered}


async def registered(street: SolanaStreet, asset: str, destination: Pubkey) -> tuple[int, str]:
    """What a merchant is told who asks to be paid in a token."""
    path = f"/v1/merchants/{street.headers['merchant-id']}/settlements"
    now = (await street.call("GET", path)).json()["crypto"]
    settlement = next(one for one in now if one["asset"] == asset)
    told = await street.call(
        "PUT", f"{path}/crypto/{settlement['id']}", {"destination": f"{CHAIN}:{destination}"}
    )
    return told.status_code, str(told.json().get("message"))


async def doctor(folder: Path, code: int) -> dict[str, dict[str, Any]]:
    """What `payd doctor` finds beside the running server, by subject."""
    house = folder / "house"
    terminal = Terminal(house)
    command = ("doctor", "--json", "--config", str(house / "payd.toml"), "--data-dir", str(house / "data"))
    done = await trio.to_thread.run_sync(lambda: terminal(*command, code=code))
    return {one["subject"]: one for one in json.loads(done.stdout)["findings"]}


async def merchants_gain(handed: Handed, mint: Pubkey = PYUSD_MINT) -> int:
    """What the merchant has more of when the payment has settled."""
    return (await handed.is_paid())[pubkey(MERCHANT), mint]


# Paid with.


async def test_pyusd_with_all_that_the_real_one_has_is_paid_with_exactly(
    street: SolanaStreet, place: int
) -> None:
    await furnish_pyusd(street.chain)
    handed = await hand_out(street, PYUSD, place)

    assert await handed.is_paid() == {
        (pubkey(place), PYUSD_MINT): -AMOUNT,
        (pubkey(MERCHANT), PYUSD_MINT): AMOUNT,
        (handed.payer, None): -handed.fee,
    }


async def test_the_merchants_first_account_of_pyusd_costs_what_was_reserved_for_it(
    tmp_path: Path, solana: LocalSolana
) -> None:
    """With the extensions that follow from the mint's it is larger than others."""
    await furnish_pyusd(solana)
    fresh = pubkey(MERCHANT_2)
    await solana.fund(fresh)
    async with open_solana_street(tmp_path / "house", solana, destination=fresh) as street:
        handed = await hand_out(street, PYUSD, POOR)
        changed = await handed.is_paid()
        size = 165 + 1 + sum(4 + size for size in (0, 8, 1))
        rent = await solana.rpc("getMinimumBalanceForRentExemption", size)

        assert changed[fresh, PYUSD_MINT] == AMOUNT
        assert changed[FEE_PAYER, None] == -handed.fee - rent


@pytest.mark.parametrize("which", ["the mint is new", "a fee that was given up", "a pause that is over"])
async def test_extensions_that_change_no_amount_are_no_obstacle(street: SolanaStreet, which: str) -> None:
    extensions, following = {
        "the mint is new": (b"", b""),
        "a fee that was given up": (fees(100, 0), extension(Kind.TRANSFER_FEE_AMOUNT, bytes(8))),
        "a pause that is over": (
            extension(Kind.PAUSABLE, KEY + b"\0"),
            extension(Kind.PAUSABLE_ACCOUNT, b""),
        ),
    }[which]
    await furnish_pyusd(street.chain, extensions, following)

    assert await merchants_gain(await hand_out(street, PYUSD, POOR)) == AMOUNT


async def test_a_merchant_whose_account_asks_for_memos_is_paid(street: SolanaStreet, place: int) -> None:
    await furnish_pyusd(street.chain)
    asks = OF_HOLDINGS + extension(Kind.MEMO_TRANSFER, b"\x01")
    await street.chain.give(pubkey(MERCHANT), PYUSD_MINT, 0, TOKEN_2022, asks)
    bare = pay_token(pubkey(BUYER), pubkey(MERCHANT), PYUSD_MINT, 1, program=TOKEN_2022)
    refused = await street.chain.status(
        await street.chain.send_raw(await street.chain.signed([bare], keypair(BUYER)))
    )
    # It means it: what has no memo fails.
    assert refused is not None
    assert refused["err"] is not None

    assert await merchants_gain(await hand_out(street, PYUSD, place)) == AMOUNT


async def test_an_operator_whose_account_asks_for_memos_gets_the_fee(
    tmp_path: Path, solana: LocalSolana
) -> None:
    await furnish_pyusd(solana)
    asks = OF_HOLDINGS + extension(Kind.MEMO_TRANSFER, b"\x01")
    for owner in (MERCHANT, OPERATOR):
        await solana.give(pubkey(owner), PYUSD_MINT, 0, TOKEN_2022, asks)
    lines = f'fee_address = "{pubkey(OPERATOR)}"'
    async with open_solana_street(tmp_path / "house", solana, fee='percent = "1"', lines=lines) as street:
        changed = await (await hand_out(street, PYUSD, POOR)).is_paid()

    assert changed[pubkey(MERCHANT), PYUSD_MINT] == 24_750_000
    assert changed[pubkey(OPERATOR), PYUSD_MINT] == 250_000


# Not offered.


@pytest.mark.parametrize("which", REFUSED)
async def test_a_token_that_does_not_move_as_it_says_is_not_offered_and_all_are_told_why(
    street: SolanaStreet, tmp_path: Path, which: str
) -> None:
    extensions, words = REFUSED[which]
    await street.chain.mint(PYUSD_MINT, TOKEN_2022, extensions=extensions)
    payment_id = await street.payment()
    for place in (BUYER, POOR):
        offered = await assets(street, payment_id, place)
        assert PYUSD not in offered
        assert USDC in offered

    status, told = await registered(street, PYUSD, pubkey(MERCHANT_2))
    assert status == 400
    assert told.startswith("destination: PYUSD cannot be paid with: ")
    assert words in told
    found = (await doctor(tmp_path, code=1))[f"{CHAIN} PYUSD {PYUSD}"]
    assert found["level"] == "error"
    assert words in found["words"]


async def test_a_token_that_is_stopped_after_the_options_is_told_of(street: SolanaStreet) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id, PYUSD, POOR)
    await street.chain.mint(PYUSD_MINT, TOKEN_2022, extensions=REFUSED["a fee"][0])
    told = await street.fetch(option)

    assert (told.status_code, told.json()["code"]) == (400, "invalid_state")
    assert told.json()["message"] == (
        "The token cannot be paid with now: the token takes a fee of each transfer."
    )


async def test_a_token_that_is_paused_after_the_fetch_is_told_of_and_pays_when_it_goes_on(
    street: SolanaStreet, place: int
) -> None:
    following = extension(Kind.PAUSABLE_ACCOUNT, b"")
    await furnish_pyusd(street.chain, extension(Kind.PAUSABLE, KEY + b"\0"), following)
    handed = await hand_out(street, PYUSD, place)
    await street.chain.mint(PYUSD_MINT, TOKEN_2022, extensions=extension(Kind.PAUSABLE, KEY + b"\x01"))
    assert "the token is paused by its issuer" in await handed.refused(handed.signed())
    await street.chain.mint(PYUSD_MINT, TOKEN_2022, extensions=extension(Kind.PAUSABLE, KEY + b"\0"))

    assert await merchants_gain(handed) == AMOUNT


async def test_a_fee_that_begins_after_the_confirm_pays_nothing_and_is_shown(
    street: SolanaStreet,
) -> None:
    """Only what arrives counts. Issuers announce a fee two epochs ahead; here is one that does not."""
    following = extension(Kind.TRANSFER_FEE_AMOUNT, bytes(8))
    await furnish_pyusd(street.chain, fees(0, 0), following)
    handed = await hand_out(street, PYUSD, POOR)
    await street.chain.rpc("payd_mode", "blackhole")
    assert (await handed.confirm(handed.signed())).json()["status"] == "processing"
    await street.chain.mint(PYUSD_MINT, TOKEN_2022, extensions=fees(100, 100))
    await street.chain.rpc("payd_mode", "normal")
    street.wake()

    async def found() -> Any:
        return (await street.detail(handed.payment_id))["transfers"]

    [transfer] = await street.wait_for(found, mining=True)
    await street.chain.finalize()
    await street.later(150)

    assert transfer["kind"] != "matched"
    assert transfer["amount"]["value"] == str(AMOUNT * 99 // 100)
    # It is no failure either: the merchant has most of it. Nothing more comes once the window has closed.
    assert await street.events(handed.payment_id) == ["payment.created", "payment.processing"]
    await street.later(900)
    await street.caught_up()
    await street.later(1)

    async def ended() -> bool:
        return (await street.events(handed.payment_id))[2:] == ["payment.expired"]

    await street.wait_for(ended, mining=True)
    [transfer] = await found()
    assert transfer["kind"] == "surplus", "it is kept, and shown"


# Another token of the same name.


async def test_a_token_of_the_same_name_at_another_mint_pays_nothing_in_any_way(street: SolanaStreet) -> None:
    """By hand with reference and memo, or in the place of the real one in what a wallet was handed."""
    fake = await street.chain.mint(Pubkey(bytes([77]) * 32))
    for one in (BUYER, MERCHANT):
        await street.chain.give(pubkey(one), fake, MINTED)
    handed = await hand_out(street, USDC, BUYER)
    *rest, last = handed.instructions
    reference = last.accounts[-1].pubkey
    forged = pay_token(pubkey(BUYER), pubkey(MERCHANT), fake, AMOUNT, reference)
    assert "the wallet changed the transaction" in await handed.refused(
        handed.with_instructions([*rest, forged])
    )
    link = (await street.links(handed.payment_id))[USDC]
    memos = pay_by_link(link, pubkey(BUYER))[:-1]
    await street.chain.send([*memos, forged], keypair(BUYER))
    await street.chain.send([memo("USDC"), forged], keypair(BUYER))
    await street.chain.slots(8)

    assert await merchants_gain(handed, USDC_MINT) == AMOUNT
    detail = await street.detail(handed.payment_id)
    assert [one["kind"] for one in detail["transfers"]] == ["matched"]
    assert (await street.call("GET", "/v1/transfers?matched=false")).json()["data"] == []
