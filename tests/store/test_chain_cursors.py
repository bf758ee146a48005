"""Cursors in the store: they move with what was found, from where the reading began, and back."""

from __future__ import annotations

import pytest

from payd.store.chain_cursors import (
    BLOCKS_KEPT,
    Cursor,
    TwoReaders,
    blocks_below,
    closed_until_s,
    find_cursor,
    keep_blocks,
    kept_hash,
    move_cursor,
    turn_back,
)
from payd.store.db import Database

CHAIN, OTHER = "eip155:1", "eip155:10"


def at(number: int, fork: str = "a") -> Cursor:
    return Cursor(number, f"0x{fork}{number}", 1000 + number)


async def test_a_chain_that_was_never_read_has_no_cursor(realm_db: Database) -> None:
    await realm_db.write(move_cursor, OTHER, "head", None, at(5))
    await realm_db.write(move_cursor, CHAIN, "final", None, at(3))
    assert realm_db.point(find_cursor, CHAIN, "head") is None
    assert realm_db.point(find_cursor, CHAIN, "final") == at(3)
    assert realm_db.point(find_cursor, OTHER, "head") == at(5)


async def test_a_cursor_moves_only_from_where_the_reading_began(realm_db: Database) -> None:
    await realm_db.write(move_cursor, CHAIN, "head", None, at(5))
    await realm_db.write(move_cursor, CHAIN, "head", at(5), at(9))
    for before in (None, at(5), at(9, "b")):
        with pytest.raises(TwoReaders):
            await realm_db.write(move_cursor, CHAIN, "head", before, at(12))
    assert realm_db.point(find_cursor, CHAIN, "head") == at(9)


async def test_the_newest_blocks_are_kept_and_older_ones_are_forgotten(realm_db: Database) -> None:
    await realm_db.write(keep_blocks, OTHER, [(1, "0xother")])
    for number in range(BLOCKS_KEPT + 10):
        await realm_db.write(keep_blocks, CHAIN, [(number, f"0x{number}")])
    kept = realm_db.point(blocks_below, CHAIN, 10**9, 10**9)
    assert [number for number, _ in kept] == list(range(BLOCKS_KEPT + 9, 9, -1))
    assert realm_db.point(blocks_below, CHAIN, 15, 2) == [(14, "0x14"), (13, "0x13")]
    assert realm_db.point(blocks_below, OTHER, 10**9, 9) == [(1, "0xother")]
    await realm_db.write(keep_blocks, OTHER, [(1, "0xanother"), (2, "0xfork"), (2, "0xnext")])
    assert realm_db.point(blocks_below, OTHER, 10**9, 9) == [(2, "0xnext"), (1, "0xanother")]
    assert [realm_db.point(kept_hash, OTHER, number) for number in (1, 2, 3)] == ["0xanother", "0xnext", None]
    await realm_db.write(keep_blocks, OTHER, [(10**6, "0xfar")])
    await realm_db.write(keep_blocks, CHAIN, [(BLOCKS_KEPT + 9, "0xsame")])
    assert len(realm_db.point(blocks_below, CHAIN, 10**9, 10**9)) == BLOCKS_KEPT


async def test_turning_back_forgets_the_blocks_above_and_no_others(realm_db: Database) -> None:
    await realm_db.write(keep_blocks, CHAIN, [(number, f"0xa{number}") for number in range(10)])
    await realm_db.write(keep_blocks, OTHER, [(9, "0xother")])
    await realm_db.write(move_cursor, CHAIN, "head", None, at(9))
    await realm_db.write(move_cursor, CHAIN, "final", None, at(4))
    for kind in ("head", "final"):
        await realm_db.write(move_cursor, OTHER, kind, None, at(9, "o"))
    await realm_db.write(turn_back, CHAIN, at(6, "b"))
    assert realm_db.point(find_cursor, CHAIN, "head") == at(6, "b")
    assert [realm_db.point(find_cursor, OTHER, kind) for kind in ("head", "final")] == [at(9, "o")] * 2
    assert realm_db.point(find_cursor, CHAIN, "final") == at(4)
    assert realm_db.point(blocks_below, CHAIN, 99, 2) == [(6, "0xb6"), (5, "0xa5")]
    assert realm_db.point(blocks_below, OTHER, 99, 2) == [(9, "0xother")]


async def test_turning_back_below_what_was_final_takes_that_cursor_along(realm_db: Database) -> None:
    await realm_db.write(move_cursor, CHAIN, "head", None, at(9))
    await realm_db.write(move_cursor, CHAIN, "final", None, at(7))
    await realm_db.write(turn_back, CHAIN, at(6, "b"))
    assert realm_db.point(find_cursor, CHAIN, "final") == at(6, "b")


async def test_windows_close_up_to_where_two_nodes_were_read_and_a_reorg_takes_that_back(
    realm_db: Database,
) -> None:
    assert realm_db.point(closed_until_s, CHAIN) == 0
    await realm_db.write(move_cursor, CHAIN, "head", None, at(9))
    await realm_db.write(move_cursor, CHAIN, "closed", None, at(8))
    await realm_db.write(move_cursor, OTHER, "closed", None, at(20))
    assert realm_db.point(closed_until_s, CHAIN) == at(8).time_s
    await realm_db.write(turn_back, CHAIN, at(8, "b"))
    assert realm_db.point(find_cursor, CHAIN, "closed") == at(8, "b")
    await realm_db.write(turn_back, CHAIN, at(5))
    assert realm_db.point(closed_until_s, CHAIN) == at(5).time_s


async def test_the_node_that_names_the_block_to_turn_back_to_ends_no_window_by_its_time(
    realm_db: Database,
) -> None:
    ahead = Cursor(6, "0xb6", 90_000)
    await realm_db.write(move_cursor, CHAIN, "head", None, at(9))
    await realm_db.write(move_cursor, CHAIN, "final", None, at(6))
    await realm_db.write(move_cursor, CHAIN, "closed", None, at(8))

    await realm_db.write(turn_back, CHAIN, ahead)

    assert realm_db.point(find_cursor, CHAIN, "head") == ahead
    assert realm_db.point(find_cursor, CHAIN, "final") == Cursor(6, "0xb6", at(6).time_s)
    assert realm_db.point(closed_until_s, CHAIN) == at(8).time_s
