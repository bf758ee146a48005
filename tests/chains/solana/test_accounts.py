"""Mints and token accounts, out of bytes."""

from __future__ import annotations

import pytest
from solders.pubkey import Pubkey

from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.accounts import Holding, Mint, decode_holding, decode_mint
from payd.chains.solana.extensions import Extension, Kind
from payd.chains.solana.keys import SYSTEM, TOKEN, TOKEN_2022
from tests.chains.solana.vm import (
    BUYER,
    PYUSD,
    PYUSD_EXTENSIONS,
    USDC,
    extension,
    holding_data,
    mint_data,
)

OWNER = BUYER.pubkey()
MEMO_WANTED = extension(Kind.MEMO_TRANSFER, b"\x01")
MULTISIG_BYTES = 355


def test_a_mint_is_read() -> None:
    assert decode_mint(TOKEN, mint_data(9)) == Mint(TOKEN, 9, is_initialized=True)


@pytest.mark.parametrize("program", [TOKEN, TOKEN_2022])
def test_a_mint_that_is_not_set_up_is_refused(program: Pubkey) -> None:
    mint = decode_mint(program, mint_data(is_initialized=False))
    assert mint.problem(0) == "the token is not set up"


def test_the_mint_of_pyusd_is_read_and_taken() -> None:
    mint = decode_mint(TOKEN_2022, mint_data(extensions=PYUSD_EXTENSIONS))
    assert [one.kind for one in mint.extensions] == [3, 12, 1, 4, 16, 14, 18, 19]
    assert mint.problem(None) is None


def test_a_token_account_is_read() -> None:
    assert decode_holding(TOKEN, holding_data(USDC, OWNER, 2**64 - 1)) == Holding(
        USDC, OWNER, 2**64 - 1, "initialized"
    )
    wrapped = holding_data(USDC, OWNER, 1, native=2_039_280)
    assert decode_holding(TOKEN, wrapped) == Holding(USDC, OWNER, 1, "initialized")


@pytest.mark.parametrize(("state", "words"), [(0, "not set up"), (1, None), (2, "frozen")])
def test_a_frozen_or_an_empty_token_account_has_a_problem(state: int, words: str | None) -> None:
    holding = decode_holding(TOKEN, holding_data(USDC, OWNER, 1, state=state))
    problem = holding.problem()
    assert problem is None if words is None else words in (problem or "")


def test_an_unknown_extension_of_a_token_account_is_kept_and_refused() -> None:
    holding = decode_holding(TOKEN_2022, holding_data(PYUSD, OWNER, 1, extension(999, b"x")))
    assert holding.extensions == (Extension(999, b"x"),)
    assert "999" in (holding.problem() or "")


@pytest.mark.parametrize(
    ("program", "data"),
    [
        (SYSTEM, mint_data()),
        (TOKEN, b""),
        (TOKEN, mint_data()[:-1]),
        (TOKEN, mint_data(extensions=MEMO_WANTED)),
        (TOKEN, holding_data(USDC, OWNER, 1)),
        (TOKEN_2022, holding_data(USDC, OWNER, 1)),
        (TOKEN_2022, holding_data(USDC, OWNER, 1, MEMO_WANTED)),
        (TOKEN_2022, mint_data(extensions=extension(19, bytes(MULTISIG_BYTES - 166 - 4)))),
        (TOKEN_2022, mint_data()[:45] + b"\x02" + mint_data()[46:]),
        (TOKEN_2022, b"\x02" + mint_data()[1:]),
        (TOKEN_2022, mint_data()[:46] + b"\x02" + mint_data()[47:]),
        (TOKEN_2022, mint_data() + b"\x01" + bytes(82) + b"\x01"),
    ],
)
def test_another_account_is_no_mint(program: Pubkey, data: bytes) -> None:
    with pytest.raises(BadAnswer):
        decode_mint(program, data)


@pytest.mark.parametrize(
    ("program", "data"),
    [
        (SYSTEM, holding_data(USDC, OWNER, 1)),
        (TOKEN, b""),
        (TOKEN, mint_data()),
        (TOKEN, holding_data(USDC, OWNER, 1) + bytes(1)),
        (TOKEN, holding_data(USDC, OWNER, 1, MEMO_WANTED)),
        (TOKEN_2022, mint_data(extensions=MEMO_WANTED)),
        (TOKEN, holding_data(USDC, OWNER, 1, state=3)),
        (TOKEN_2022, holding_data(USDC, OWNER, 1, extension(19, bytes(MULTISIG_BYTES - 166 - 4)))),
        (TOKEN, holding_data(USDC, OWNER, 1)[:72] + b"\x02" + holding_data(USDC, OWNER, 1)[73:]),
        (TOKEN, holding_data(USDC, OWNER, 1)[:109] + b"\x02" + holding_data(USDC, OWNER, 1)[110:]),
        (TOKEN, holding_data(USDC, OWNER, 1)[:129] + b"\x02" + holding_data(USDC, OWNER, 1)[130:]),
    ],
)
def test_another_account_is_no_token_account(program: Pubkey, data: bytes) -> None:
    with pytest.raises(BadAnswer):
        decode_holding(program, data)


@pytest.mark.parametrize("size", [MULTISIG_BYTES - 1, MULTISIG_BYTES + 1])
def test_a_neighbour_of_the_size_of_several_signers_is_a_mint(size: int) -> None:
    data = mint_data(extensions=extension(Kind.TOKEN_METADATA, bytes(size - 166 - 4)))
    assert len(data) == size
    assert decode_mint(TOKEN_2022, data).decimals == 6
