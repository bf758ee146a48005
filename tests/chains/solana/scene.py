"""A shop on a local Solana node, as a `SolanaChain` meets it: tokens, payments that were offered, wallets.

There is no server, and no actor: a test moves payments by what the chain found, step by step, and has the
chain read by a watcher that sees everything.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from payd.chains.assets import Asset, AssetBook
from payd.chains.base import Accepted, Found, Verdict
from payd.chains.defaults import DepthPolicy
from payd.chains.market.table import TablePrices
from payd.chains.rpc import Rpc
from payd.chains.solana.answers import Landed, decode_landed
from payd.chains.solana.build import split, with_signature
from payd.chains.solana.chain import SolanaChain
from payd.chains.solana.dialect import SolanaDialect
from payd.chains.solana.fee_payer import FeePayer
from payd.chains.solana.proof import Watched, candidate_bindings, paid_by
from payd.chains.solana.terms import Terms
from payd.core.caip import AccountId, canonical_asset, parse_asset, parse_chain
from payd.core.option import Build, Offer, Quote, Result
from payd.core.payment import FundsCommitted, Payment, Trigger, open_payment, transition
from payd.core.submission import Submission
from payd.store.chain_cursors import Cursor, CursorKind, find_cursor, move_cursor
from payd.store.db import Database, Tx
from payd.store.options import Route, hand_out, hand_out_resolved
from payd.store.outbox import EventToStore
from payd.store.sightings import Seen, Sighting, hold_to_commitment, matched_of, record, take_back
from payd.store.submissions import find_submission, insert_submission, note_leaving
from payd.store.transfers import follow_transfer
from payd.store.watches import known_bindings
from tests.inserts import insert_payment, record_transition
from tests.live.solana import (
    BUYER,
    CHAIN,
    FEE_PAYER,
    LAMPORTS,
    MERCHANT,
    OPERATOR,
    PYUSD,
    PYUSD_MINT,
    SOL,
    USDC,
    USDC_MINT,
    USDT,
    USDT_MINT,
    LocalSolana,
    account_id,
    address,
    furnish_solana,
    keypair,
    pubkey,
)
from tests.live.solana_proxy import SolanaProxy, open_solana_proxy
from tests.live.svm_ledger import Block
from tests.live.svm_node import ServedNode, open_svm_node

PAYMENT_ID: Final = "pay_l01jw0000000000000000000000000000000a"
WINDOW_MS: Final = 900_000
FINALIZED: Final = 4
# Known from the shipped table, like the others, and held by nobody.
EURC_MINT: Final = Pubkey.from_string("HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr")
PRICES: Final[Mapping[str, str]] = {"USDC/USD": "1", "USDT/USD": "1", "PYUSD/USD": "1", "SOL/USD": "150"}
TERMS: Final = Terms(
    chain=parse_chain(CHAIN),
    depth=DepthPolicy.of("confirmed"),
    sponsor=True,
    fee_payer=pubkey(FEE_PAYER),
)
USDC_ROW: Final = Asset(asset=USDC, symbol="USDC", name="USD Coin", decimals=6, kind="spl", par="USD")
USDT_ROW: Final = Asset(asset=USDT, symbol="USDT", name="Tether USD", decimals=6, kind="spl", par="USD")
PYUSD_ROW: Final = Asset(
    asset=PYUSD, symbol="PYUSD", name="PayPal USD", decimals=6, kind="spl", token_2022=True, par="USD"
)
SOL_ROW: Final = Asset(asset=SOL, symbol="SOL", name="Solana", decimals=9, kind="native")
ROWS: Final = (USDC_ROW, USDT_ROW, PYUSD_ROW, SOL_ROW)


@dataclass
class Scene:
    """Everything there is.

    Attributes:
        node: The chain itself; `solana` sees it through `proxies`, where there are any.
        local: What tests do on it.
        db: The realm's store.
        rpc: As `solana` asks the nodes.
        solana: What is tested.
    """

    node: ServedNode
    local: LocalSolana
    db: Database
    rpc: Rpc
    solana: SolanaChain
    proxies: list[SolanaProxy] = field(default_factory=list)

    def restarted(self, *, key: int | None = FEE_PAYER, **terms: Any) -> SolanaChain:
        """The same chain, as another configuration has it."""
        fee_payer = None if key is None else FeePayer(bytes([key]) * 32)
        changed = {"fee_payer": None if fee_payer is None else fee_payer.address, **terms}
        return SolanaChain(
            msgspec.structs.replace(self.solana.terms, **changed),
            rpc=self.rpc,
            db=self.db,
            book=self.solana.book,
            prices=TablePrices(PRICES),
            fee_payer=fee_payer,
        )

    # Offering.

    def now_ms(self) -> int:
        """By the chain: its newest block's time."""
        return self.node.ledger.tip.time_s * 1000

    async def payment(self, value: int = 2500, currency: str = "USD", **other: Any) -> Payment:
        """A stored payment, open for a quarter of an hour."""
        now_ms = self.now_ms()
        payment = Payment(
            id=PAYMENT_ID,
            account_id="acct_1",
            merchant_id="mrch_1",
            reference_id="ORDER-1",
            currency=currency,
            value=value,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + WINDOW_MS,
            updated_at_ms=now_ms,
        )
        payment = msgspec.structs.replace(payment, **other)
        event = EventToStore(f"evt_{payment.id}", b"{}", f"dlv_{payment.id}", f"msg_{payment.id}")
        await self.db.write(insert_payment, open_payment(payment), event, None)
        return payment

    async def offer(self, payment: Payment, asset: str, buyer: int = BUYER) -> Offer | None:
        """What an account is offered."""
        return await self.solana.offer(
            payment,
            parse_asset(asset),
            AccountId(self.solana.terms.chain, address(buyer)),
            account_id(MERCHANT),
            self.now_ms(),
        )

    async def handed(
        self, payment: Payment, asset: str, buyer: int = BUYER, option_id: str | None = None
    ) -> Quote:
        """The same handed out, with a build action."""
        offer = await self.offer(payment, asset, buyer)
        assert offer is not None, "nothing is offered"
        return await self.hand_out(payment, asset, offer, option_id)

    async def hand_out(
        self, payment: Payment, asset: str, offer: Offer, option_id: str | None = None
    ) -> Quote:
        """An offer as it is handed out."""
        route = Route(asset, canonical_asset(parse_asset(asset)), "crypto_1", account_id(MERCHANT))
        handed = [(route, offer, option_id or f"opt_{payment.id}")]
        [quote] = await self.db.write(hand_out, payment.id, handed, self.now_ms(), payment.expires_at_ms)
        return quote

    async def quote(
        self, payment: Payment, asset: str = USDC, buyer: int = BUYER, option_id: str | None = None
    ) -> Quote:
        """The same with its transaction, as a wallet fetches it."""
        return await self.fetch(payment, await self.handed(payment, asset, buyer, option_id))

    async def fetch(self, payment: Payment, quote: Quote) -> Quote:
        """The transaction of a quote, as a wallet fetches it."""
        [action] = quote.actions
        assert isinstance(action, Build)
        found = await self.solana.resolve(payment, quote, action.data, self.now_ms())
        resolved = msgspec.structs.replace(quote, actions=found.calls)
        await self.db.write(hand_out_resolved, resolved)
        return resolved

    # Paying.

    async def check(self, payment: Payment, quote: Quote, *data: Any) -> Verdict:
        """What the chain says to results, one item each."""
        results = [Result("walletRpc", [item]) for item in data]
        return await self.solana.check(payment, quote, results, self.now_ms())

    async def commit(self, payment: Payment, quote: Quote, *data: Any) -> Payment:
        """The payment after results that are good, with what is owed to the chain stored."""
        verdict = await self.check(payment, quote, *data)
        assert isinstance(verdict, Accepted), verdict
        assert isinstance(verdict.job, Submission)
        committed = await self.move(payment, FundsCommitted(verdict.processing, b"results"))
        await self.db.write(insert_submission, payment.id, verdict.job, self.now_ms())
        await self.db.write(hold_to_commitment, payment.id)
        return committed

    async def signed(self, asset: str = USDC, buyer: int = BUYER, **other: Any) -> Payment:
        """A payment whose transaction was signed and taken, and is not sent yet."""
        payment = await self.payment(**other)
        quote = await self.quote(payment, asset, buyer)
        return await self.commit(payment, quote, sign(quote, buyer))

    async def bring(self, payment_id: str = PAYMENT_ID) -> str:
        """Send what is owed to the chain, as whoever does that; gives its id."""
        submission = self.db.point(find_submission, payment_id)
        assert submission is not None
        await self.db.write(note_leaving, [submission.seq], self.now_ms())
        return await self.local.send_raw(submission.raw)

    async def paid(self, asset: str = USDC, buyer: int = BUYER, **other: Any) -> Payment:
        """A payment that is committed, and whose transfer is confirmed and found."""
        payment = await self.signed(asset, buyer, **other)
        await self.bring(payment.id)
        await self.watch()
        return payment

    # Following.

    async def move(self, payment: Payment, trigger: Trigger) -> Payment:
        """Store that a trigger moves a payment."""
        moved = transition(payment, trigger, self.now_ms())
        after = moved.payment
        event = EventToStore(
            f"evt_{after.id}{after.version}", b"{}", f"dlv_{after.version}", f"m{after.version}"
        )
        await self.db.write(record_transition, moved, event, None)
        return after

    async def watch(self, blocks: int = 1) -> None:
        """Have everything read that is confirmed after so many more blocks."""
        await self.local.slots(blocks)
        seen = [one for landed in self._landed() for one in self._seen(landed)]
        await self.db.write(self._store, seen)

    def _landed(self) -> list[Landed]:
        asked = {"encoding": "base64", "commitment": "confirmed", "maxSupportedTransactionVersion": 0}
        found = [
            decode_landed(self.node.ask("getTransaction", one, asked)) for one in self.node.ledger.landed
        ]
        return [one for one in found if one is not None]

    def _seen(self, landed: Landed) -> list[Seen]:
        mints = {USDC_MINT: USDC, USDT_MINT: USDT, PYUSD_MINT: PYUSD}
        watched = Watched({pubkey(MERCHANT)}, mints, SOL)
        known = self.db.point(known_bindings, candidate_bindings(landed), CHAIN)
        return [
            Seen(
                chain=CHAIN,
                tx_id=landed.tx_id,
                log_index=one.account_index,
                asset=one.asset,
                value=one.value,
                sender=one.sender,
                recipient=one.recipient,
                block_number=landed.slot,
                block_hash=f"slot:{landed.slot}",
                block_time_s=landed.block_time_s or 0,
                binding=one.binding,
            )
            for one in paid_by(self.solana.terms.chain, landed, watched, known)
        ]

    def _store(self, tx: Tx, seen: Sequence[Seen]) -> None:
        record(tx, seen, self.now_ms())
        self._move(tx, "head", self.node.ledger.at("confirmed"))
        self._move(tx, "final", self.node.ledger.at("finalized"))

    def _move(self, tx: Tx, kind: CursorKind, block: Block) -> None:
        before = find_cursor(tx, CHAIN, kind)
        move_cursor(tx, CHAIN, kind, before, Cursor(block.slot, f"slot:{block.slot}", block.time_s))

    async def look(self, payment: Payment) -> Found | None:
        """What the chain finds about a payment now."""
        return await self.solana.look(payment, self.now_ms())

    async def follow(self, payment: Payment) -> Payment:
        """Look and store until nothing is new; gives the payment as it then is."""
        while (found := await self.look(payment)) is not None:
            if found.follow is not None:
                assert await self.db.write(follow_transfer, payment.id, found.follow)
            if found.trigger is None:
                return payment
            payment = await self.move(payment, found.trigger)
        return payment

    def builds(self) -> int:
        """How many transactions were built for wallets."""
        [count] = self.db.point(lambda tx: tx.execute("SELECT count(*) FROM builds").fetchone())
        return int(count)

    async def take_back(self, row: Sighting) -> None:
        """Store that a transfer is nowhere."""
        await self.db.write(take_back, row)

    def row(self, payment: Payment) -> Sighting:
        """The transfer that pays it."""
        [row] = self.db.point(matched_of, payment.id)
        return row


def transaction_of(quote: Quote) -> bytes:
    """What a wallet is to sign for a quote."""
    [action] = quote.actions
    assert not isinstance(action, Build)
    return base64.b64decode(action.params[0]["transaction"])


def signed_by(raw: bytes, signer: Keypair) -> bytes:
    """A transaction with one more signature."""
    return with_signature(raw, signer.pubkey(), bytes(signer.sign_message(split(raw)[1])))


def sign(quote: Quote, place: int = BUYER) -> str:
    """What a wallet gives for a quote."""
    return base64.b64encode(signed_by(transaction_of(quote), keypair(place))).decode()


@asynccontextmanager
async def open_scene(
    db: Database,
    *,
    proxies: int = 0,
    rows: Sequence[Asset] = ROWS,
    prices: Mapping[str, str] = PRICES,
    can_sponsor: bool = True,
    **terms: Any,
) -> AsyncIterator[Scene]:
    """A node with three tokens, buyers that hold them, and a fee payer with SOL; in real time alone.

    Args:
        db: The realm's store.
        proxies: Nodes that `solana` asks instead of the one that there is.
        rows: The assets.
        prices: What they cost.
        can_sponsor: What is said of every buyer.
        terms: What is other than in `TERMS`.
    """
    async with AsyncExitStack() as stack:
        node = await stack.enter_async_context(open_svm_node(finalized=FINALIZED))
        made = [await stack.enter_async_context(open_solana_proxy(node.ledger)) for _ in range(proxies)]
        local = LocalSolana(node)
        await furnish_solana(local)
        await local.mint(EURC_MINT)
        await local.give(pubkey(OPERATOR), USDC_MINT, 0)
        for place in (FEE_PAYER, MERCHANT):
            await local.fund(pubkey(place), LAMPORTS)
        changed = msgspec.structs.replace(TERMS, **terms)
        urls = [one.url for one in made] or [node.url]
        rpc = Rpc(urls, SolanaDialect(changed.chain.reference))
        stack.push_async_callback(rpc.aclose)
        solana = SolanaChain(
            changed,
            rpc=rpc,
            db=db,
            book=AssetBook(rows),
            prices=TablePrices(prices),
            fee_payer=FeePayer(bytes([FEE_PAYER]) * 32),
            can_sponsor=lambda buyer: can_sponsor,
        )
        scene = Scene(node, local, db, rpc, solana, made)
        await scene.watch(0)
        yield scene
