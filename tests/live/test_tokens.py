"""Tokens as they are: some refuse, pause and deny, some were written by others; payd asks each what it says.

A token's refusal is told in words and leaves the payment open. A row that does not fit its token asks for
nothing that could not pay.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.chain import BUYER, DEPLOYER, FIRST_CONTRACT, MERCHANT, LocalChain, account, address, calldata
from tests.live.strange import OPEN_DOMAIN, coin, row_of, take
from tests.live.street import (
    DAI,
    MINTED,
    USDC,
    Street,
    furnish_chain,
    open_street,
    signed,
)

pytestmark = pytest.mark.real_time

AMOUNT = 25_000_000
SIGN, SEND = "eth_signTypedData_v4", "eth_sendTransaction"


async def do(chain: LocalChain, token: str, signature: str, *values: Any) -> None:
    """One of the calls that everybody may make of these tokens."""
    await chain.done(account(DEPLOYER), token, calldata(signature, *values))


async def refused(street: Street, payment_id: str, option: dict[str, Any], *results: str) -> str:
    """Why, in words; the payment is open as before."""
    told = await street.confirm(payment_id, option, *results)
    assert (told.status_code, told.json()["code"]) == (422, "invalid_signature")
    assert await street.status(payment_id) == "requires_action"
    return str(told.json()["message"])


async def settles(street: Street, payment_id: str, option: dict[str, Any], *results: str) -> None:
    told = await street.confirm(payment_id, option, *results)
    assert told.status_code == 200, told.text
    await street.until(payment_id, "settled")
    [transfer] = (await street.detail(payment_id))["transfers"]
    assert (transfer["kind"], transfer["amount"]["value"]) == ("matched", str(AMOUNT))


def method(option: dict[str, Any]) -> str:
    [action] = option["actions"]
    return str(action["method"])


@pytest.mark.parametrize(
    ("call", "values", "words"),
    [
        ("setBlacklisted(address,bool)", (address(MERCHANT),), "blacklisted"),
        ("setPaused(bool)", (), "paused"),
    ],
    ids=["the merchant is on its deny list", "it is paused"],
)
async def test_what_a_token_refuses_is_refused_in_its_words(
    street: Street, call: str, values: tuple[Any, ...], words: str
) -> None:
    payment_id = await street.payment()
    option = await street.option(payment_id)
    results = await street.execute(option)
    await do(street.chain, FIRST_CONTRACT, call, *values, True)

    assert f"The token refuses it: {words}." in await refused(street, payment_id, option, *results)

    await do(street.chain, FIRST_CONTRACT, call, *values, False)
    await settles(street, payment_id, option, *results)


async def test_a_row_with_a_wrong_domain_asks_for_transfers_and_never_for_signatures(
    tmp_path: Path, chain: LocalChain
) -> None:
    await furnish_chain(chain)
    token = await chain.token("Tether USD", "USDT", "1")
    await chain.mint(token, address(BUYER), MINTED)
    row = row_of(token, "eip3009", '{ name = "Tether", version = "1" }')
    async with open_street(tmp_path / "house", chain, block_s=0.2, lines=f"depth = 2\n{row}") as street:
        asset = await take(street, token)
        payment_id = await street.payment()
        option = await street.option(payment_id, asset)
        assert method(option) == SEND
        await settles(street, payment_id, option, *await street.execute(option))


async def test_a_row_with_wrong_decimals_is_not_offered_at_all(tmp_path: Path, chain: LocalChain) -> None:
    """It would ask for a trillion times as much."""
    await furnish_chain(chain)
    token = await chain.token("Tether USD", "USDT", "1")
    await chain.mint(token, address(BUYER), 10**30)
    row = row_of(token, "erc20", decimals=18)
    async with open_street(tmp_path / "house", chain, block_s=0.2, lines=f"depth = 2\n{row}") as street:
        asset = await take(street, token)
        units = [one["amount"]["unit"] for one in await street.options(await street.payment())]
    assert f"caip19/{DAI}" in units
    assert f"caip19/{asset}" not in units


async def test_without_a_sponsor_every_token_is_sent(tmp_path: Path, chain: LocalChain) -> None:
    await furnish_chain(chain)
    plain = "depth = 2\nsponsor = false"
    async with open_street(tmp_path / "house", chain, block_s=0.2, lines=plain) as street:
        payment_id = await street.payment()
        option = await street.option(payment_id, USDC)
        assert method(option) == SEND
        await settles(street, payment_id, option, *await street.execute(option))


async def test_a_token_by_other_authors_is_paid_in_by_signature(tmp_path: Path, chain: LocalChain) -> None:
    """OpenZeppelin's describes its domain by EIP-5267 alone, and takes no smart wallet's signature."""
    await furnish_chain(chain)
    wallet = await chain.deploy("Wallet1271", ["address"], [address(BUYER)])
    token = await coin(chain, "OpenDollar", address(BUYER), wallet)
    row = row_of(token, "eip3009", OPEN_DOMAIN)
    async with open_street(tmp_path / "house", chain, block_s=0.2, lines=f"depth = 2\n{row}") as street:
        asset = await take(street, token)
        payment_id = await street.payment()
        option = await street.option(payment_id, asset)
        assert method(option) == SIGN
        its = await street.options_of(payment_id, wallet)
        assert [method(one) for one in its if one["amount"]["unit"] == f"caip19/{asset}"] == [SEND]

        await settles(street, payment_id, option, *await street.execute(option))

    assert await chain.balance(token, address(MERCHANT)) == AMOUNT


async def test_a_token_that_refuses_without_words_is_refused_and_pays_later(
    tmp_path: Path, chain: LocalChain
) -> None:
    """Its errors are its own, so that a node can show no words for them."""
    await furnish_chain(chain)
    token = await coin(chain, "OpenDollar", address(BUYER))
    row = row_of(token, "eip3009", OPEN_DOMAIN)
    async with open_street(tmp_path / "house", chain, block_s=0.2, lines=f"depth = 2\n{row}") as street:
        asset = await take(street, token)
        payment_id = await street.payment()
        option = await street.option(payment_id, asset)
        [action] = option["actions"]
        result = signed(json.loads(action["params"])[1])
        await do(chain, token, "setFrozen(address,bool)", address(BUYER), True)

        assert (await refused(street, payment_id, option, result)).startswith("The token refuses it")

        await do(chain, token, "setFrozen(address,bool)", address(BUYER), False)
        await settles(street, payment_id, option, result)


async def test_a_token_whose_transfers_return_nothing_is_paid_in(tmp_path: Path, chain: LocalChain) -> None:
    await furnish_chain(chain)
    token = await coin(chain, "MuteDollar", address(BUYER))
    async with open_street(
        tmp_path / "house", chain, block_s=0.2, lines=f"depth = 2\n{row_of(token, 'erc20')}"
    ) as street:
        asset = await take(street, token)
        payment_id = await street.payment()
        option = await street.option(payment_id, asset)
        await settles(street, payment_id, option, *await street.execute(option))
    assert await chain.balance(token, address(MERCHANT)) == AMOUNT
