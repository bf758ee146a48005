"""A merchant's till in a test: payments that were offered on a chain, as rows, and no server around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from payd.chains.evm.binding import authorization_nonce, payment_tag
from payd.core.caip import canonical_asset, parse_asset
from payd.core.fee import Fee
from payd.core.money import AmountWire, asset_amount
from payd.core.option import Offer, WalletRpc
from payd.core.payment import (
    FundsCommitted,
    Payment,
    Processing,
    TransferConfirmed,
    Transition,
    Trigger,
    open_payment,
    transition,
)
from payd.core.relay import RelayJob
from payd.store.db import Database, Tx
from payd.store.merchants import Merchant, insert_merchant
from payd.store.options import Route, hand_out
from payd.store.outbox import EventToStore
from payd.store.payments import find_payment
from payd.store.relays import insert_job
from payd.store.settlements import Settlement, insert_settlement
from payd.store.sightings import Sighting, hold_to_commitment, sightings_in
from tests.chains.evm.json import BUYER, OTHER_SHOP, OTHER_TOKEN, SHOP, TOKEN
from tests.inserts import insert_payment, record_transition

CHAIN: Final = "eip155:8453"
USDC: Final = f"{CHAIN}/erc20:{TOKEN}"
EURC: Final = f"{CHAIN}/erc20:{OTHER_TOKEN}"
ETH: Final = f"{CHAIN}/slip44:60"
PRICE: Final = 25_000_000
START_MS: Final = 1_780_000_000_000
WINDOW_MS: Final = 900_000


def account(address: str, chain: str = CHAIN) -> str:
    """CAIP-10."""
    return f"{chain}:{address}"


@dataclass
class Till:
    """Two merchants of two accounts: `acct_1` is paid at SHOP, `acct_2` at OTHER_SHOP."""

    db: Database

    async def open(self) -> Till:
        """Register both, each with a destination for USDC."""
        for number, destination in ((1, SHOP), (2, OTHER_SHOP)):
            merchant = Merchant(
                f"mrch_{number}", f"acct_{number}", "Café", "shop@example.com", None, "active", 1000
            )
            await self.db.write(insert_merchant, merchant)
            await self.settle(number, USDC, destination)
        return self

    async def settle(self, number: int, asset: str, destination: str) -> None:
        """Register a destination of a merchant."""
        settlement = Settlement(
            f"crypto_{number}_{asset}", f"mrch_{number}", asset, asset, account(destination), 1000
        )
        await self.db.write(insert_settlement, settlement)

    async def sell(
        self,
        name: str = "1",
        *,
        asset: str = USDC,
        value: int = PRICE,
        merchant: int = 1,
        at_ms: int = START_MS,
        valid_ms: int = WINDOW_MS,
        window_ms: int = WINDOW_MS,
    ) -> str:
        """A payment that was offered to the buyer; its id."""
        payment = Payment(
            id=f"pay_l{name}",
            account_id=f"acct_{merchant}",
            merchant_id=f"mrch_{merchant}",
            reference_id=f"R-{name}",
            currency="USD",
            value=2500,
            created_at_ms=at_ms,
            expires_at_ms=at_ms + window_ms,
            updated_at_ms=at_ms,
        )
        moved = open_payment(payment)
        await self.db.write(insert_payment, moved, _event(moved), payment.expires_at_ms)
        await self.offer(payment.id, asset=asset, value=value, at_ms=at_ms, valid_ms=valid_ms)
        return payment.id

    async def offer(
        self,
        payment_id: str,
        *,
        asset: str = USDC,
        value: int = PRICE,
        at_ms: int = START_MS,
        valid_ms: int = WINDOW_MS,
    ) -> None:
        """Hand an option of it out, as the gateway does."""
        payment = self.payment(payment_id)
        key = canonical_asset(parse_asset(asset))
        chain = str(parse_asset(asset).chain)
        destination = account(SHOP if payment.account_id == "acct_1" else OTHER_SHOP, chain)
        offer = Offer(
            asset,
            account(BUYER, chain),
            value,
            (WalletRpc(chain, "eth_sendTransaction", [{"value": str(value)}]),),
            10,
            at_ms + valid_ms,
            bindings=(payment_tag(payment_id), authorization_nonce(payment_id)),
        )
        route = Route(asset, key, f"crypto_{payment.account_id[-1]}_{asset}", destination)
        await self.db.write(
            hand_out, payment_id, [(route, offer, f"opt_{payment_id}_{key}")], at_ms, payment.expires_at_ms
        )

    async def commit(
        self,
        payment_id: str,
        *,
        asset: str = USDC,
        value: int = PRICE,
        fee: Fee | None = None,
        results_hash: bytes | None = b"results",
    ) -> None:
        """The buyer's funds are committed; with a fee, the merchant gets less than the buyer pays.

        By a wallet's results; without, by a transfer that a node showed.
        """
        amount = asset_amount(asset, value)
        net = amount if fee is None else AmountWire(amount.unit, str(value - int(fee.total_amount.value)))
        processing = Processing(START_MS, amount, net, account(BUYER), CHAIN, fee)
        await self.move(payment_id, FundsCommitted(processing, results_hash))

    async def sign(self, payment_id: str, *, fee: Fee | None = None) -> None:
        """The buyer's funds are committed by a signature, which payd brings to the chain."""
        await self.commit(payment_id, fee=fee)
        job = RelayJob(CHAIN, account(BUYER), TOKEN, b"", START_MS // 1000 + 3600)
        await self.db.write(insert_job, payment_id, job, START_MS)
        await self.db.write(hold_to_commitment, payment_id)

    async def succeed(self, payment_id: str, tx_id: str) -> None:
        """It is paid, by this transaction."""
        if self.payment(payment_id).processing is None:
            await self.commit(payment_id)
        await self.move(payment_id, TransferConfirmed(tx_id))

    async def move(self, payment_id: str, trigger: Trigger) -> None:
        """Move it by one trigger."""
        moved = transition(self.payment(payment_id), trigger, START_MS)
        due_at_ms = None if moved.payment.is_final else moved.payment.expires_at_ms
        await self.db.write(record_transition, moved, _event(moved), due_at_ms)

    def payment(self, payment_id: str) -> Payment:
        """As it is stored."""
        found = self.db.point(find_payment, payment_id)
        assert found is not None
        return found

    def shown(self, tx_id: str, chain: str = CHAIN) -> list[Sighting]:
        """What is stored of a transaction."""
        return self.db.point(sightings_in, chain, tx_id)

    def kinds(self, tx_id: str) -> list[str]:
        """What its transfers are."""
        return [one.kind for one in self.shown(tx_id)]

    def count(self, table: str) -> int:
        """Rows of a table."""
        return self.db.point(lambda tx: _count(tx, table))


def _count(tx: Tx, table: str) -> int:
    (count,) = tx.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def _event(moved: Transition) -> EventToStore:
    name = f"{moved.payment.id}_{moved.payment.version}"
    return EventToStore(f"evt_{name}", b"{}", f"dlv_{name}", f"msg_{name}")
