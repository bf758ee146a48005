"""What the chain under a seed never does."""

from __future__ import annotations

from random import Random

from tests.simulation.chain import BLOCK_S, Chain, Sent

NOW_S = 1_800_000_000
DROPS = 2


def test_what_lay_deep_enough_once_is_never_lost_also_by_a_second_reorg() -> None:
    lost = 0
    for seed in range(500):
        rng = Random(seed)
        chain = Chain(rng, NOW_S)
        first = Sent("0xbuyer", "0xshop", hash=chain.name())
        chain.send(first)
        time_s = NOW_S
        while chain.find(first.hash) is None:
            chain.mine(time_s := time_s + BLOCK_S)
        chain.mine(time_s := time_s + BLOCK_S)
        for _ in range(5):
            shallow = Sent("0xother", "0xshop", hash=chain.name(), nonce=chain.next_nonce("0xother"))
            chain.send(shallow)
            chain.reorg(rng.choice((1, 1, 2, 5)), drops=DROPS, now_s=time_s)
            assert first not in chain.lost
            assert first.hash in chain.pool or chain.find(first.hash) is not None
        lost += len(chain.lost)

    assert lost, "what lay never so deep is lost at times"
