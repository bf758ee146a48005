"""How a Solana chain of the live realm is built: with a watcher that lists accounts, and who submits.

Imported only when such a chain is configured.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from functools import partial

from solders.pubkey import Pubkey

from payd.actors.account_watcher import account_watcher
from payd.actors.live_chain import LiveChain
from payd.actors.submitter import Submitter
from payd.chains.rpc import Rpc
from payd.chains.solana.chain import SolanaChain
from payd.chains.solana.fee_payer import FeePayer
from payd.chains.solana.subscription import Wanted, follow_signatures
from payd.chains.solana.terms import Terms
from payd.config import Config, SolanaChainConfig
from payd.core.caip import parse_chain
from payd.live.parts import Parts, fee_terms_of


def open_solana(
    config: Config,
    chain: SolanaChainConfig,
    rpc: Rpc,
    parts: Parts,
    fee_payer: FeePayer | None,
    *,
    submits: bool,
) -> LiveChain:
    """One chain.

    Args:
        config: Whose fee is taken.
        chain: As it is configured.
        rpc: Its nodes.
        parts: What all chains share.
        fee_payer: The key that pays for others; None: nobody's fee is paid.
        submits: Whether what buyers signed is brought to the chain.
    """
    payer = fee_payer if chain.sponsor else None
    terms = terms_of(config, chain, None if payer is None else payer.address)
    # What the websocket is to tell of, by who watches and by who submits; they wake each other.
    wanted = Wanted()
    made: list[LiveChain] = []
    submitter = None
    if submits:
        submitter = Submitter(
            parts.db,
            parts.clock,
            rpc,
            terms,
            news=parts.news,
            found=lambda tx_id: made[0].watcher.found(tx_id),
            wanted=wanted,
        )
    watcher = account_watcher(
        db=parts.db,
        clock=parts.clock,
        rpc=rpc,
        chain=terms.chain,
        book=parts.book,
        poll_ms=chain.poll_ms,
        news=parts.news,
        wake_relayer=(lambda: None) if submitter is None else submitter.wake,
        follow_news=None if not chain.ws else partial(follow_signatures, chain.ws, wanted),
        wanted=wanted,
    )
    solana = SolanaChain(
        terms,
        rpc=rpc,
        db=parts.db,
        book=parts.book,
        prices=parts.prices,
        fee_payer=payer,
        can_sponsor=(lambda buyer: False) if submitter is None else submitter.can_sponsor,
    )
    made.append(LiveChain(chain.id, rpc, solana, watcher, submitter, parts.prices, chain.depth))
    return made[0]


def solana_to_look(
    config: Config, chain: SolanaChainConfig, rpc: Rpc, parts: Parts, fee_payer: str | None
) -> SolanaChain:
    """One chain, for who only asks; `fee_payer` is the address of the key, None where there is none."""
    address = Pubkey.from_string(fee_payer) if fee_payer is not None and chain.sponsor else None
    terms = terms_of(config, chain, address)
    return SolanaChain(terms, rpc=rpc, db=parts.db, book=parts.book, prices=parts.prices)


def terms_of(config: Config, chain: SolanaChainConfig, fee_payer: Pubkey | None) -> Terms:
    """What the operator set for a chain; `fee_payer` is the address of the key, None where there is none."""
    return Terms(
        chain=parse_chain(chain.id),
        depth=chain.depth,
        sponsor=chain.sponsor,
        fee_payer=fee_payer,
        price_max=chain.unit_price_max,
        spend_per_day=chain.gas_per_day_lamports,
        relays_per_buyer=chain.relays_per_buyer,
        fee=fee_terms_of(config, chain),
        block_ms=chain.shipped.block_ms,
    )
