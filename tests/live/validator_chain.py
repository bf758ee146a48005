"""What tests need on a validator's chain: SOL from its faucet, and mints that issue by transactions.

Nothing is put there by other means: what accounts hold, the chain's own programs have written.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account

from payd.chains.solana.keys import TOKEN, TOKEN_2022, token_account
from payd.config import load
from payd.server import open_house
from tests.live.front import write_configuration
from tests.live.node_process import START_MAX_S
from tests.live.solana import (
    BUYER,
    BUYER_2,
    DECIMALS,
    ISSUER,
    LAMPORTS,
    MERCHANT,
    MINT_SIZE,
    MINTED,
    POOR,
    LocalSolana,
    create_holding,
    keypair,
    pubkey,
)
from tests.live.solana_street import FEE_PAYER, furnish_shop, solana_configuration
from tests.live.street import write_keystore
from tests.live.validator import SLOT_MS, Validator, running_validator

_INITIALIZE_MINT, _MINT_TO = 20, 7

# Each with its program.
USDC_KEY: Final = Keypair.from_seed(bytes([51]) * 32)
PYUSD_KEY: Final = Keypair.from_seed(bytes([52]) * 32)
ISSUED: Final = ((USDC_KEY, TOKEN), (PYUSD_KEY, TOKEN_2022))

ASSETS: Final = """
sponsor = true

[[assets]]
asset = "{usdc}"
symbol = "USDC"
name = "USD Coin"
decimals = 6
kind = "spl"
par = "USD"

[[assets]]
asset = "{pyusd}"
symbol = "PYUSD"
name = "PayPal USD"
decimals = 6
kind = "spl"
token_2022 = true
par = "USD"

[[assets]]
asset = "{sol}"
symbol = "SOL"
name = "Solana"
decimals = 9
kind = "native"
"""


class ValidatorChain(LocalSolana):
    """One that is furnished.

    Attributes:
        validator: The node.
        usdc, pyusd, sol: CAIP-19; PYUSD is of Token-2022.
    """

    def __init__(self, validator: Validator) -> None:
        self.validator = validator
        self.usdc = f"{validator.chain}/token:{USDC_KEY.pubkey()}"
        self.pyusd = f"{validator.chain}/token:{PYUSD_KEY.pubkey()}"
        self.sol = f"{validator.chain}/slip44:501"
        super().__init__(validator, validator.chain, (self.usdc, self.pyusd, self.sol))

    @property
    def lines(self) -> str:
        """Of payd.toml, in and after the chain's [[chains]]: what payd ships knows nothing of it."""
        return ASSETS.format(usdc=self.usdc, pyusd=self.pyusd, sol=self.sol)

    async def furnish(self) -> None:
        """Buyers who have tokens, of whom one has no SOL, a merchant, and a fee payer."""
        for owner in (*(pubkey(one) for one in (ISSUER, BUYER, BUYER_2, MERCHANT)), FEE_PAYER):
            await self.airdrop(owner, 10 * LAMPORTS)
        issuer = pubkey(ISSUER)
        for mint, program in ISSUED:
            await self.send(await self.initialize(mint, program), keypair(ISSUER), mint)
            for place in (BUYER, BUYER_2, POOR):
                made = create_holding(issuer, pubkey(place), mint.pubkey(), program)
                issue = mint_to(pubkey(place), mint.pubkey(), MINTED, program)
                await self.send([made, issue], keypair(ISSUER))
            made = create_holding(issuer, pubkey(MERCHANT), mint.pubkey(), program)
            await self.send([made], keypair(ISSUER))

    async def slots(self, count: int = 1) -> int:
        """Wait for so many more blocks; gives the newest slot."""
        wanted = int(await self.rpc("getSlot")) + count
        with trio.fail_after(START_MAX_S):
            while (slot := int(await self.rpc("getSlot"))) < wanted:
                await trio.sleep(0.01)
        return slot

    async def initialize(self, mint: Keypair, program: Pubkey) -> list[Instruction]:
        """What makes a mint that the issuer issues from."""
        rent = await self.rpc("getMinimumBalanceForRentExemption", MINT_SIZE)
        where = CreateAccountParams(
            from_pubkey=pubkey(ISSUER),
            to_pubkey=mint.pubkey(),
            lamports=rent,
            space=MINT_SIZE,
            owner=program,
        )
        data = bytes([_INITIALIZE_MINT, DECIMALS]) + bytes(pubkey(ISSUER)) + b"\0"
        accounts = [AccountMeta(mint.pubkey(), is_signer=False, is_writable=True)]
        return [create_account(where), Instruction(program, data, accounts)]


def mint_to(owner: Pubkey, mint: Pubkey, amount: int, program: Pubkey) -> Instruction:
    """New tokens in the associated account of a wallet."""
    accounts = [
        AccountMeta(mint, is_signer=False, is_writable=True),
        AccountMeta(token_account(owner, mint, program), is_signer=False, is_writable=True),
        AccountMeta(pubkey(ISSUER), is_signer=True, is_writable=False),
    ]
    return Instruction(program, struct.pack("<BQ", _MINT_TO, amount), accounts)


@asynccontextmanager
async def open_validator_chain(slot_ms: int = SLOT_MS) -> AsyncIterator[ValidatorChain]:
    """A fresh node with all that a shop needs on it, and a block so often."""
    with running_validator(slot_ms) as validator:
        chain = ValidatorChain(validator)
        await chain.furnish()
        yield chain


async def prepare_shop(folder: Path, chain: ValidatorChain) -> dict[str, str]:
    """Make a folder that a server can be started in, with a shop; what its merchant's backend sends."""
    write_configuration(folder, solana_configuration([chain.validator.url], chain.lines, chain=chain.id))
    write_keystore(folder)
    given = {"PAYD_DATA_DIR": str(folder / "data"), "PAYD_LISTEN": "127.0.0.1:0"}
    async with open_house(load(folder / "payd.toml", given), inline=True) as house:
        return await furnish_shop(house, None, chain.id, chain.assets)
