"""What nodes say of a transaction: an end only where that holds together, and enough of them agree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import permutations
from typing import Any

import pytest

from payd.chains.rpc import NodesDown
from payd.chains.rpc_errors import BadAnswer
from payd.chains.solana.answers import Commitment, Status
from payd.chains.solana.fates import Word, agreed_end, ask_all, ask_one, is_forgotten
from payd.store.db import Database
from tests.actors.solana_watching import DOWN, SolanaWatching, open_solana
from tests.live.node_process import Refused

TX = "5" * 88


@pytest.fixture
async def solana(realm_db: Database) -> AsyncIterator[SolanaWatching]:
    """A chain that one node tells of."""
    async with open_solana(realm_db) as opened:
        yield opened


@pytest.fixture
async def two_solanas(realm_db: Database) -> AsyncIterator[SolanaWatching]:
    """The same with two nodes; the first one is preferred."""
    async with open_solana(realm_db, 2) as opened:
        yield opened


def word(status: Status | None, height: int = 100, at: int = 200, first: int = 0) -> Word:
    return Word(height, 200, at, {TX: status}, first)


def status(commitment: Commitment, err: object = None) -> Status:
    return Status(150, err, commitment)


@pytest.mark.parametrize(
    ("said", "end"),
    [
        (word(status("finalized")), "landed"),
        (word(status("finalized", "AccountInUse")), "failed"),
        (word(status("confirmed")), None),
        (word(status("confirmed", "AccountInUse")), None),
        (word(status("processed")), None),
        (word(None, height=99), None),
        (word(None, height=100), "nowhere"),
        # What does not know all slots up to the height may have it in those that it lacks.
        (word(None, height=100, at=199), None),
    ],
)
def test_one_word(said: Word, end: str | None) -> None:
    assert said.end_of(TX, 99) == end
    assert agreed_end([said, said], TX, 99, 2) == end
    assert agreed_end([said], TX, 99, 1) == end


@pytest.mark.parametrize(
    ("slots", "end"), [(302, "nowhere"), (301, "forgotten"), (1302, "nowhere"), (0, "forgotten")]
)
def test_what_a_node_does_not_have_it_may_have_forgotten(slots: int, end: str) -> None:
    """It could land in 151 blocks: 302 slots, if each second one had none."""
    said = Word(100, 1302, 1302, {TX: None}, 1302 - slots)
    assert said.end_of(TX, 99) == end
    assert agreed_end([said], TX, 99, 1) == (None if end == "forgotten" else end)
    assert is_forgotten([said, word(None)], TX, 99) == (end == "forgotten")
    assert is_forgotten([said, word(status("finalized", "x"))], TX, 99) == (end == "forgotten")
    for other in (word(status("processed")), word(None, height=99), word(status("finalized"))):
        assert not is_forgotten([said, other], TX, 99)


def test_who_forgot_it_is_in_no_agreements_way() -> None:
    forgot, gone = word(None, first=150), status("finalized", "x")
    for shown, end in ((None, "nowhere"), (status("finalized"), "landed"), (gone, "failed")):
        assert agreed_end([word(shown), forgot, word(shown)], TX, 99, 2) == end
        assert agreed_end([word(shown), forgot], TX, 99, 2) is None


def test_without_agreement_there_is_no_end() -> None:
    failed, forgot = word(status("finalized", "x")), word(None)
    words = [word(status("finalized")), forgot, word(status("confirmed")), failed]
    for one, other in permutations(words, 2):
        if {id(one), id(other)} != {id(failed), id(forgot)}:
            assert agreed_end([one, other], TX, 99, 2) is None
    assert agreed_end([], TX, 99, 1) is None


def test_what_failed_on_one_node_and_is_nowhere_on_another_has_failed() -> None:
    failed = word(status("finalized", "x"))
    for words in permutations([failed, word(None)]):
        assert agreed_end(words, TX, 99, 2) == "failed"
    assert agreed_end([failed, word(None, height=99)], TX, 99, 2) is None
    assert agreed_end([failed, word(None), word(status("finalized"))], TX, 99, 2) is None


@pytest.mark.parametrize("end", ["landed", "failed", "nowhere"])
def test_of_three_nodes_two_that_agree_are_enough_while_one_is_behind(end: str) -> None:
    shown = {"landed": status("finalized"), "failed": status("finalized", "x"), "nowhere": None}[end]
    for behind in (word(None, height=99), word(None, at=199)):
        assert agreed_end([word(shown), behind, word(shown)], TX, 99, 2) == end
        assert agreed_end([word(shown), behind], TX, 99, 2) is None
        assert agreed_end([word(shown), behind, behind], TX, 99, 2) is None


@pytest.mark.parametrize("commitment", ["processed", "confirmed"])
def test_what_one_of_three_nodes_has_is_not_nowhere(commitment: Commitment) -> None:
    for shown in (status(commitment), status(commitment, "x")):
        assert agreed_end([word(None), word(None), word(shown)], TX, 99, 2) is None


def test_what_three_nodes_contradict_each_other_on_has_no_end() -> None:
    words = [word(status("finalized")), word(status("finalized")), word(status("finalized", "x"))]
    assert agreed_end(words, TX, 99, 2) is None
    assert agreed_end([*words[:2], word(None)], TX, 99, 2) is None


async def test_many_are_asked_for_in_one_post(solana: SolanaWatching) -> None:
    paid = [await solana.pay(await solana.sell(str(number))) for number in range(3)]
    posts = solana.rpc.posts
    said = await ask_one(solana.rpc, paid, search_history=False)
    assert solana.rpc.posts == posts + 1
    assert {one.commitment for one in said.statuses.values() if one is not None} >= {"confirmed"}
    assert said.height == solana.ledger.at("finalized").height
    assert said.at == solana.ledger.tip.slot


async def test_a_node_says_from_where_on_it_remembers_where_it_is_asked_for_what_is_old(
    solana: SolanaWatching,
) -> None:
    paid = await solana.pay(await solana.sell())
    solana.nodes[0].first_slot = 7
    assert (await ask_one(solana.rpc, [paid], search_history=True)).first == 7
    assert (await ask_one(solana.rpc, [paid], search_history=False)).first == 0
    honest = solana.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        if method == "getFirstAvailableBlock":
            raise Refused(-32601, "Method not found")
        return honest(method, *params)

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    assert (await ask_one(solana.rpc, [paid], search_history=True)).first == 0


async def test_more_than_a_call_takes_are_asked_for_in_several(solana: SolanaWatching) -> None:
    paid = await solana.pay(await solana.sell())
    calls = solana.rpc.calls["getSignatureStatuses"]
    said = await ask_one(solana.rpc, [paid] * 257, search_history=True)
    assert solana.rpc.calls["getSignatureStatuses"] - calls == 2
    assert said.statuses[paid] is not None


async def test_of_several_calls_the_one_that_knows_the_least_counts(solana: SolanaWatching) -> None:
    paid = await solana.pay(await solana.sell())
    honest, behind = solana.nodes[0].ask, iter([0, 3])

    def ask(method: str, *params: Any) -> Any:
        said = honest(method, *params)
        if method != "getSignatureStatuses":
            return said
        return {**said, "context": {"slot": said["context"]["slot"] - next(behind)}}

    solana.nodes[0].ask = ask  # type: ignore[method-assign]
    said = await ask_one(solana.rpc, [paid] * 257, search_history=True)
    assert said.at == solana.ledger.tip.slot - 3


async def test_a_node_that_makes_no_sense_is_not_the_one_that_is_heard(two_solanas: SolanaWatching) -> None:
    paid = await two_solanas.pay(await two_solanas.sell())
    honest = two_solanas.nodes[0].ask

    def ask(method: str, *params: Any) -> Any:
        return None if method == "getSignatureStatuses" else honest(method, *params)

    two_solanas.nodes[0].ask = ask  # type: ignore[method-assign]
    assert (await ask_one(two_solanas.rpc, [paid], search_history=True)).statuses[paid] is not None
    assert len(await ask_all(two_solanas.rpc, [paid])) == 1
    two_solanas.nodes[1].does = DOWN
    with pytest.raises(BadAnswer):
        await ask_one(two_solanas.rpc, [paid], search_history=True)
    two_solanas.nodes[0].does = DOWN
    with pytest.raises(NodesDown):
        await ask_one(two_solanas.rpc, [paid], search_history=True)
