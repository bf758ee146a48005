"""What the live demo needs of a wallet, whatever its chain: a key that pays, and a look at the chain.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from payd.cli.demo_plan import Plan
from payd.cli.wallet import Buyer
from payd.config import EvmChainConfig
from payd.core.caip import AssetId, parse_chain

if TYPE_CHECKING:
    from payd.chains.rpc import Rpc


class Landed(NamedTuple):
    """What the chain has of a transaction: whether it did what it says; where it is, and who paid its fee."""

    is_good: bool
    words: str


class ChainWallet(Buyer, Protocol):
    """One key on one chain."""

    @property
    def address(self) -> str:
        """As the chain writes it."""

    async def head(self) -> str:
        """Where the chain is, in words. Raises what the nodes say."""

    async def balance(self, asset: AssetId, address: str) -> int:
        """What an address has of an asset, in smallest units. Raises what the nodes say."""

    async def landed(self, tx_id: str) -> Landed | None:
        """What became of a transaction; None where no node knows it. Raises what the nodes say."""


def open_wallet(plan: Plan, rpc: Rpc) -> ChainWallet:
    """The plan's wallet; a password is asked for where none is written down.

    Raises:
        Refused: There is no such wallet, or it does not open.
    """
    chain = parse_chain(plan.chain.id)
    if isinstance(plan.chain, EvmChainConfig):
        from payd.cli.evm_wallet import EvmWallet, read_wallet

        key = read_wallet(plan.wallet, plan.password_file)
        return EvmWallet(key, chain, rpc, sends=plan.send, max_fee_wei=plan.chain.max_fee_wei)
    from payd.cli.solana_wallet import SolanaWallet, read_keypair

    return SolanaWallet(read_keypair(plan.wallet), chain, rpc)
