"""Links as rows: each opens once, for what it was made, in its time."""

from __future__ import annotations

import pytest

from payd.core.errors import InvalidParams
from payd.core.roles import Role
from payd.store.audit import list_audit
from payd.store.db import Database
from payd.store.links import (
    OPEN_MAX,
    Link,
    Purpose,
    find_link,
    insert_link,
    list_invitations,
    prune_links,
    take_back,
    take_back_of,
    use_link,
)

NOW = 1_780_000_000_000


async def make(
    office: Database,
    name: str,
    purpose: Purpose = "invite",
    user_id: str | None = None,
    account: str = "acct_1",
) -> Link:
    role = Role.VIEWER if purpose == "invite" else None
    link = Link(f"inv_{name}", purpose, account, user_id, role, None, "usr_9", NOW, NOW + 1000)
    return await office.write(insert_link, link, name.encode())


async def test_it_opens_once_for_its_purpose_in_its_time(office: Database) -> None:
    made = await make(office, "1")
    assert office.point(find_link, "invite", b"1", NOW + 999) == made
    closed: list[tuple[Purpose, bytes, int]] = [
        ("setup", b"1", NOW),
        ("invite", b"2", NOW),
        ("invite", b"1", NOW + 1000),
    ]
    for purpose, token, at_ms in closed:
        assert office.point(find_link, purpose, token, at_ms) is None
    assert await office.write(use_link, "invite", b"1", NOW) == made
    with pytest.raises(InvalidParams, match="used already"):
        await office.write(use_link, "invite", b"1", NOW)


async def test_a_newer_one_takes_the_place_of_a_setup_or_of_a_persons_reset(office: Database) -> None:
    await make(office, "1", "setup")
    await make(office, "2", "setup")
    await make(office, "3", "reset", "usr_1")
    await make(office, "4", "reset", "usr_2")
    await make(office, "5", "reset", "usr_1")
    made: dict[str, Purpose] = {"1": "setup", "2": "setup", "3": "reset", "4": "reset", "5": "reset"}
    opens = {
        name: office.point(find_link, purpose, name.encode(), NOW) is not None
        for name, purpose in made.items()
    }
    assert opens == {"1": False, "2": True, "3": False, "4": True, "5": True}


async def test_an_account_sees_and_takes_back_its_own(office: Database) -> None:
    await make(office, "1")
    await make(office, "2", account="acct_2")
    assert [one.id for one in office.point(list_invitations, "acct_1", NOW)] == ["inv_1"]

    async def gone(link_id: str) -> bool:
        return await office.write(take_back, account_id="acct_1", link_id=link_id, actor="usr_9", now_ms=NOW)

    assert not await gone("inv_2")
    assert await gone("inv_1")
    assert office.point(find_link, "invite", b"1", NOW) is None
    assert [one.act for one in office.point(list_audit, "acct_1", None, 9)] == [
        "link.take_back",
        "link.invite",
    ]


async def test_what_a_person_made_is_taken_back_in_one_account_and_no_reset_with_it(office: Database) -> None:
    await make(office, "1")
    await make(office, "2", account="acct_2")
    await make(office, "3", "reset", "usr_1")

    assert await office.write(take_back_of, "acct_1", "usr_9") == 1
    assert not await office.write(take_back, account_id="acct_1", link_id="inv_3", actor="usr_9", now_ms=NOW)
    opens = [office.point(find_link, "invite", b"2", NOW), office.point(find_link, "reset", b"3", NOW)]
    assert None not in opens


async def test_an_invitation_that_was_used_or_is_over_is_not_open_and_stays_as_the_proof_of_it(
    office: Database,
) -> None:
    await make(office, "used")
    await make(office, "open")
    await make(office, "setup", "setup")
    await office.write(use_link, "invite", b"used", NOW)
    assert [one.id for one in office.point(list_invitations, "acct_1", NOW)] == ["inv_open"]
    assert office.point(list_invitations, "acct_1", NOW + 1000) == []
    assert not await office.write(
        take_back, account_id="acct_1", link_id="inv_used", actor="usr_9", now_ms=NOW
    )
    assert await office.write(take_back_of, "acct_1", "usr_8") == 0
    assert await office.write(take_back_of, "acct_1", "usr_9") == 1
    left = office.point(lambda tx: tx.execute("SELECT id FROM links ORDER BY id").fetchall())
    assert left == [("inv_setup",), ("inv_used",)]


async def test_there_are_so_many_at_once(office: Database) -> None:
    for number in range(OPEN_MAX):
        await make(office, str(number))
    with pytest.raises(InvalidParams, match="open invitations"):
        await make(office, "more")
    await make(office, "other", account="acct_2")


async def test_what_is_over_is_forgotten(office: Database) -> None:
    await make(office, "1")
    assert await office.write(prune_links, NOW + 1000, 10) == 0
    assert await office.write(prune_links, NOW + 1001, 10) == 1
