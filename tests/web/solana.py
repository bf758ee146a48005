"""A shop that takes Solana in its live realm, on a chain that is played: what accounts hold is said here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote as percent_encode

import trio

from payd.chains.assets import display_of
from payd.chains.base import Resolved
from payd.chains.rates import RateTable
from payd.chains.simulated import SimulatedChain
from payd.chains.simulated_actions import binding
from payd.chains.simulated_solana import SplToken, decode_key, transfer_transaction
from payd.core.caip import AccountId, AssetId, canonical_asset, canonical_chain, parse_account, parse_asset
from payd.core.errors import ChainUnavailable
from payd.core.money import format_units
from payd.core.option import Build, Display, Offer, Quote, WalletRpc
from payd.core.payment import Payment
from tests.shop import SOLANA, SOLANA_WALLET, USDC_SOLANA, Got, Shop, open_shop

SOL: Final = f"{SOLANA}/slip44:501"
BUYER: Final = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"
VOLATILE_MS: Final = 90_000

TOML: Final = """
[[chains]]
id = "eip155:8453"
rpc = ["https://node.example"]
"""


class PlayedSolana(SimulatedChain):
    """Solana, whose blocks nobody makes: it offers and asks for what the accounts of a test can pay.

    Attributes:
        holdings: What accounts hold enough of: canonical assets, by address.
        lamports: What a payment costs in SOL.
        is_down: Whether no node answers.
        asked: How often it was asked for a link.
        unlinked: Assets that no link can ask for.
        meanwhile: What happens while it is asked next.
        volatile_ms: How long a price in SOL holds.
    """

    volatile_ms = VOLATILE_MS

    def __init__(self) -> None:
        super().__init__(1000, 1000, RateTable())
        self.holdings: dict[str, set[str]] = {BUYER: {USDC_SOLANA, SOL}}
        self.lamports = 171_300_000
        self.is_down = False
        self.asked = 0
        self.unlinked: set[str] = set()
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def serves(self, chain: str) -> bool:
        return chain == SOLANA

    def display(self, asset: AssetId) -> Display:
        shown = display_of(asset)
        assert shown is not None
        return shown

    async def read_ahead(self, payment: Payment, asks: Any, now_ms: int) -> None:
        await self._ask()

    async def offer(
        self, payment: Payment, asset: AssetId, account: AccountId, destination: str, now_ms: int
    ) -> Offer | None:
        if canonical_asset(asset) not in self.holdings.get(account.address, ()):
            return None
        actions = (Build(f"plan-{canonical_asset(asset)}"),)
        return self._offer(payment, asset, str(account), actions, now_ms)

    async def resolve(self, payment: Payment, quote: Quote, data: str, now_ms: int) -> Resolved:
        await self._ask()
        asset = parse_asset(canonical_asset(parse_asset(quote.asset)))
        mint = decode_key(asset.reference)
        buyer, wallet = (decode_key(parse_account(one).address) for one in (quote.account, quote.destination))
        assert buyer is not None
        assert wallet is not None
        transaction = transfer_transaction(
            buyer,
            wallet,
            quote.amount,
            None if mint is None else SplToken(mint, self.display(asset).decimals),
            tag=binding(payment.id, "reference"),
            blockhash=now_ms.to_bytes(32, "big"),
        )
        params = [{"transaction": transaction, "pubkey": parse_account(quote.account).address}]
        return Resolved((WalletRpc(SOLANA, "solana_signTransaction", params),), now_ms + 60_000)

    async def pay_offer(
        self, payment: Payment, asset: AssetId, destination: str, now_ms: int, *, label: str = ""
    ) -> Offer | None:
        await self._ask()
        self.asked += 1
        if canonical_asset(asset) in self.unlinked:
            return None
        asset = parse_asset(canonical_asset(asset))
        amount = format_units(self._amount(payment, asset), self.display(asset).decimals)
        mint = f"&spl-token={asset.reference}" if asset.namespace == "token" else ""
        number = amount.rstrip("0").rstrip(".")
        wallet = parse_account(destination).address
        link = f"solana:{wallet}?amount={number}{mint}&label={percent_encode(label)}"
        return self._offer(payment, asset, f"{SOLANA}:{'1' * 32}", (Build(link),), now_ms)

    def _offer(
        self, payment: Payment, asset: AssetId, account: str, actions: tuple[Build, ...], now_ms: int
    ) -> Offer:
        end_ms = payment.expires_at_ms
        return Offer(
            asset=str(asset),
            account=account,
            amount=self._amount(payment, asset),
            actions=actions,
            eta_s=2,
            valid_until_ms=min(end_ms, now_ms + self.volatile_ms) if asset.namespace == "slip44" else end_ms,
            bindings=(binding(payment.id, "reference"),),
        )

    def _amount(self, payment: Payment, asset: AssetId) -> int:
        return self.lamports if asset.namespace == "slip44" else payment.value * 10_000

    async def _ask(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_down:
            raise ChainUnavailable("No node answers.")
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()


@dataclass
class SolanaShop:
    """A shop with an account's live key, its merchant, and the chain."""

    shop: Shop
    key: str
    merchant_id: str
    chain: PlayedSolana

    async def pay(self, reference: str = "ORDER-7", **more: Any) -> str:
        """A payment of 25.00 USD; its id."""
        body = {"referenceId": reference, "amount": {"unit": "iso4217/USD", "value": "2500"}, **more}
        made = await self.call("POST", "/v1/payments", body, key=self.key, merchant_id=self.merchant_id)
        assert made.status == 201, made.body
        return str(made.body["paymentId"])

    async def call(
        self, method: str, path: str, body: Any = None, key: str | None = None, **more: Any
    ) -> Got:
        """A request of whoever has no key, unless one is given."""
        return await self.shop.call(method, path, body, key=key, **more)

    def now_ms(self) -> int:
        """The time of the live realm."""
        return self.shop.house.realms["live"].clock.now_ms()


@asynccontextmanager
async def open_solana_shop(folder: Path, *assets: str, **env: Any) -> AsyncIterator[SolanaShop]:
    """A shop whose live realm has Solana, and whose merchant takes these assets there, in this order."""
    _write_toml(folder)
    async with open_shop(folder, **env) as shop:
        realm = shop.house.realms["live"]
        chain = PlayedSolana()
        realm.payments.chains = (*realm.payments.chains, chain)
        key = shop.keys["live.one"]
        merchant_id = await shop.new_merchant(key=key, pays=False)
        for asset in assets or (USDC_SOLANA, SOL):
            chain_id = parse_asset(asset).chain
            on = chain_id if canonical_chain(chain_id).namespace == "solana" else SOLANA
            await shop.register(merchant_id, asset, f"{on}:{SOLANA_WALLET}", key=key)
        yield SolanaShop(shop, key, merchant_id, chain)


def _write_toml(folder: Path) -> None:
    folder.mkdir()
    (folder / "payd.toml").write_text(TOML)
