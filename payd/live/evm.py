"""How an EVM chain of the live realm is built: with a watcher that reads blocks, and a relayer.

Imported only when such a chain is configured.

Source: DESIGN.md, "10. Live realm".
"""

from __future__ import annotations

from functools import partial

from payd.actors.block_watcher import block_watcher
from payd.actors.live_chain import LiveChain
from payd.actors.relayer import Relayer
from payd.chains.evm.chain import EvmChain
from payd.chains.evm.signer import Signer
from payd.chains.evm.terms import Terms
from payd.chains.heads import follow_heads
from payd.chains.rpc import Rpc
from payd.config import Config, EvmChainConfig
from payd.core.caip import parse_chain
from payd.core.relay import RelayLimits
from payd.live.parts import Parts, fee_terms_of


def open_evm(
    config: Config, chain: EvmChainConfig, rpc: Rpc, parts: Parts, signer: Signer | None
) -> LiveChain:
    """One chain.

    Args:
        config: Whose fee is taken.
        chain: As it is configured.
        rpc: Its nodes.
        parts: What all chains share.
        signer: The relayer's key; None: nobody's gas is paid.
    """
    # The relayer and the watcher wake each other.
    made: list[LiveChain] = []
    relayer = None
    if signer is not None and chain.sponsor:
        limits = RelayLimits(
            max_fee=chain.max_fee_wei,
            gas_per_day=chain.gas_per_day_wei,
            relays_per_buyer=chain.relays_per_buyer,
            bump_after_ms=chain.shipped.bump_after_ms,
        )
        relayer = Relayer(
            parts.db,
            parts.clock,
            rpc,
            parse_chain(chain.id),
            signer,
            limits,
            parts.news,
            lambda: made[0].watcher.wake(),
        )
    watcher = block_watcher(
        db=parts.db,
        clock=parts.clock,
        rpc=rpc,
        chain=parse_chain(chain.id),
        book=parts.book,
        poll_ms=chain.poll_ms,
        final=chain.final,
        news=parts.news,
        wake_relayer=(lambda: None) if relayer is None else relayer.wake,
        follow_heads=None if not chain.ws else partial(follow_heads, chain.ws),
    )
    evm = EvmChain(
        terms_of(config, chain, None if relayer is None or signer is None else signer.address),
        rpc=rpc,
        db=parts.db,
        book=parts.book,
        prices=parts.prices,
        can_relay=(lambda buyer: False) if relayer is None else relayer.can_relay,
    )
    made.append(LiveChain(chain.id, rpc, evm, watcher, relayer, parts.prices, chain.depth))
    return made[0]


def evm_to_look(
    config: Config, chain: EvmChainConfig, rpc: Rpc, parts: Parts, relayer: str | None
) -> EvmChain:
    """One chain, for who only asks; `relayer` is the address of the key, None where there is none."""
    terms = terms_of(config, chain, relayer if chain.sponsor else None)
    return EvmChain(terms, rpc=rpc, db=parts.db, book=parts.book, prices=parts.prices)


def terms_of(config: Config, chain: EvmChainConfig, relayer: str | None) -> Terms:
    """What the operator set for a chain; `relayer` is the address of the key, None where there is none."""
    return Terms(
        chain=parse_chain(chain.id),
        block_ms=chain.shipped.block_ms,
        depth=chain.depth,
        final=chain.final,
        sponsor=chain.sponsor,
        relayer=None if relayer is None else relayer.lower(),
        fee=fee_terms_of(config, chain),
    )
