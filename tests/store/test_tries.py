"""Tries are counted before they are looked at, and forgotten with time or with the right answer."""

from __future__ import annotations

from payd.core.tries import ACCOUNT, ADDRESS, FORGOTTEN_MS
from payd.store.db import Database, Tx
from payd.store.tries import Who, begin_try, forgive, prune_tries

NOW = 1_780_000_000_000
ADA: Who = (ACCOUNT, "ada@example.com")
EVE: Who = (ACCOUNT, "eve@example.com")
HERE: Who = (ADDRESS, "203.0.113.7")
THERE: Who = (ADDRESS, "203.0.113.8")


async def tries(office: Database, times: int, *whos: Who, at_ms: int = NOW) -> list[int]:
    return [await office.write(begin_try, whos, at_ms) for _ in range(times)]


async def test_what_comes_too_early_is_not_counted(office: Database) -> None:
    assert await tries(office, 7, ADA) == [0] * 5 + [1000, 1000]
    assert await tries(office, 2, ADA, at_ms=NOW + 1000) == [0, 2000]


async def test_each_waits_for_itself_and_whoever_waits_longest_counts(office: Database) -> None:
    await tries(office, 6, ADA, HERE)
    assert await tries(office, 1, EVE, HERE) == [0]
    assert await tries(office, 1, ADA, HERE) == [1000]


async def test_the_right_answer_forgets_all_but_other_tries_of_the_address(
    office: Database,
) -> None:
    await tries(office, 5, ADA, HERE)
    await tries(office, 2, EVE, THERE)
    await office.write(forgive, [ADA, HERE])
    assert await tries(office, 1, ADA) == [0]

    def counts(tx: Tx) -> list[int]:
        return [count for (count,) in tx.execute("SELECT count FROM tries ORDER BY count")]

    assert office.point(counts) == [1, 2, 2, 4]


async def test_a_day_forgets_too(office: Database) -> None:
    await tries(office, 6, ADA)
    assert await tries(office, 6, ADA, at_ms=NOW + FORGOTTEN_MS) == [0] * 5 + [1000]
    await tries(office, 1, EVE, at_ms=NOW + FORGOTTEN_MS + 1)
    assert await office.write(prune_tries, NOW + FORGOTTEN_MS + 1, 10) == 1


async def test_what_was_typed_is_not_kept(office: Database) -> None:
    await tries(office, 1, (ACCOUNT, "my password " * 1000))

    def names(tx: Tx) -> list[str]:
        return [who for (who,) in tx.execute("SELECT who FROM tries")]

    [name] = office.point(names)
    assert len(name) < 50
    assert "password" not in name
