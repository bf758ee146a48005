"""A submitter in a test, beside the watcher of a Solana chain: what is owed are real signed transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import VersionedTransaction

from payd.actors.submitter import Submitter
from payd.chains.defaults import DepthPolicy
from payd.chains.solana.binding import memo_of, reference_key
from payd.chains.solana.subscription import Wanted
from payd.chains.solana.terms import Terms
from payd.core.caip import parse_chain
from payd.core.submission import Submission
from payd.store.builds import Build, find_build, hash_message, insert_build
from payd.store.db import Database
from payd.store.submissions import StoredSubmission, find_submission, insert_submission
from tests.actors.solana_watching import PRICE, SolanaWatching, open_solana
from tests.live.solana import (
    BUYER,
    CHAIN,
    LAMPORTS,
    MERCHANT,
    STRANGER,
    USDC_MINT,
    account_id,
    create_holding,
    keypair,
    memo,
    pay_token,
    pubkey,
    tx_id_of,
)

# Whose SOL pays for others.
FEE_PAYER: Final = 50
# What a build may cost at most, as it was reserved.
RESERVED: Final = 3_000_000
TERMS: Final = Terms(
    chain=parse_chain(CHAIN),
    depth=DepthPolicy.of("confirmed"),
    sponsor=True,
    fee_payer=pubkey(FEE_PAYER),
    spend_per_day=LAMPORTS,
    relays_per_buyer=3,
)


@dataclass
class Submitting:
    """One submitter and everything around it.

    Attributes:
        solana: The chain, its watcher and the payments.
        told: Payments of which the submitter said that nothing comes.
        found: Transactions that it had read, in order.
    """

    solana: SolanaWatching
    submitter: Submitter
    wanted: Wanted
    told: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    async def owe(
        self,
        name: str = "1",
        *,
        value: int = PRICE,
        payer: int = FEE_PAYER,
        to: int = MERCHANT,
        creates: bool = False,
        committed: bool = True,
    ) -> StoredSubmission:
        """A payment whose buyer has signed: committed and owed in one step, as `confirm` does it."""
        payment = await self.solana.sell(name, to=to)
        raw, message = await self.signed(payment, value=value, payer=payer, to=to, creates=creates)
        await self.build(payment, raw, message, sponsored=payer == FEE_PAYER)
        if committed:
            await self.solana.commit(payment)
        height = self.solana.ledger.valid_until(str(message.recent_blockhash))
        assert height is not None
        owed = Submission(CHAIN, account_id(BUYER), tx_id_of(raw), raw, height)
        await self.solana.db.write(insert_submission, payment, owed, self.solana.clock.now_ms())
        return self.stored(payment)

    async def signed(
        self, payment: str, *, value: int = PRICE, payer: int = FEE_PAYER, to: int = MERCHANT, creates: bool
    ) -> tuple[bytes, Message]:
        """A transaction that pays for a payment, with all signatures."""
        reference = reference_key(payment)
        instructions = [
            *([create_holding(pubkey(payer), pubkey(to), USDC_MINT)] if creates else []),
            memo(memo_of(bytes(reference))),
            pay_token(pubkey(BUYER), pubkey(to), USDC_MINT, value, reference),
        ]
        blockhash = Hash.from_string(await self.solana.local.blockhash())
        message = Message.new_with_blockhash(instructions, pubkey(payer), blockhash)
        signers: list[Keypair] = list({payer: keypair(payer), BUYER: keypair(BUYER)}.values())
        return bytes(VersionedTransaction(message, signers)), message

    async def build(self, payment: str, raw: bytes, message: Message, *, sponsored: bool = True) -> bytes:
        """Store that it was handed out; gives the hash that it is known by."""
        height = self.solana.ledger.valid_until(str(message.recent_blockhash))
        assert height is not None
        made = Build(
            hash_message(bytes(message)),
            payment,
            CHAIN,
            account_id(BUYER),
            height,
            self.solana.clock.now_ms(),
            tx_id_of(raw) if sponsored else None,
            RESERVED if sponsored else 0,
        )
        await self.solana.db.write(insert_build, made)
        return made.message_hash

    def stored(self, payment: str) -> StoredSubmission:
        """As it is."""
        found = self.solana.db.point(find_submission, payment)
        assert found is not None
        return found

    def built(self, message_hash: bytes) -> Build:
        """As it is."""
        found = self.solana.db.point(find_build, message_hash)
        assert found is not None
        return found

    def states(self, *owed: StoredSubmission) -> list[str]:
        """What became of them."""
        return [self.stored(one.payment_id).state for one in owed]

    def sends(self, node: int = 0) -> int:
        """How many transactions a node was handed."""
        return sum(post.count("sendTransaction") for post in self.solana.nodes[node].asked)

    def drop(self, mode: Any, after: int = 1) -> None:
        """What becomes of what is sent to the nodes from now on."""
        for node in self.solana.nodes:
            node.mode, node.drop_after = mode, after

    async def expire(self) -> None:
        """No blockhash of now is good any more, in what is final."""
        await self.solana.local.slots(160)

    def forget(self, owed: StoredSubmission) -> None:
        """The first node knows nothing of it any more, nor of anything that old, and says since when."""
        node = self.solana.nodes[0]
        node.forgotten.add(owed.tx_id)
        node.first_slot = self.solana.ledger.tip.slot - 10

    def another(self, **terms: Any) -> Submitter:
        """A submitter over the same rows, as after a restart."""
        return make_submitter(self, **terms)


def make_submitter(bench: Submitting, **terms: Any) -> Submitter:
    """A submitter that tells `bench`."""

    async def news(payment_id: str, chain: str) -> None:
        assert chain == CHAIN
        bench.told.append(payment_id)

    async def found(tx_id: str) -> None:
        bench.found.append(tx_id)
        await bench.solana.watcher.found(tx_id)

    return Submitter(
        bench.solana.db,
        bench.solana.clock,
        bench.solana.rpc,
        msgspec.structs.replace(TERMS, **terms),
        news=news,
        found=found,
        wanted=bench.wanted,
    )


@asynccontextmanager
async def open_submitting(db: Database, nodes: int = 1) -> AsyncIterator[Submitting]:
    """A submitter with a fee payer that has SOL, and a wallet without a token account."""
    async with open_solana(db, nodes) as solana:
        await solana.local.fund(pubkey(FEE_PAYER))
        await solana.local.fund(pubkey(STRANGER))
        await solana.local.slots(2)
        # The submitter tells `bench`, which it is a part of.
        bench = Submitting(solana, None, Wanted())  # type: ignore[arg-type]
        bench.submitter = make_submitter(bench)
        yield bench
