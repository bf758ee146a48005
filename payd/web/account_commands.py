"""What an operator can do with accounts; their owners rename and move them in the dashboard by the same acts.

Source: DESIGN.md, "12. Operations"; DESIGN.md, "6. The API: what SPEC.md leaves open".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from payd.core.event import iso_ms
from payd.core.version import DEFAULT
from payd.entropy import new_id
from payd.store.accounts import (
    Account,
    choose_account,
    insert_account,
    list_accounts,
    move_account,
    rename_account,
)
from payd.store.db import Tx
from payd.web.command import ACTOR, Args, Command, real_ms

if TYPE_CHECKING:
    from payd.web.house import House


class _AccountCreate(Args, frozen=True):
    name: str


class _Rename(Args, frozen=True, kw_only=True):
    name: str
    account: str | None = None


class _Move(Args, frozen=True, kw_only=True):
    version: str
    account: str | None = None


class _AccountWire(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    name: str
    api_version: str
    created_at: str


async def rename(house: House, account_id: str, name: str, actor: str) -> Account:
    """Give an account another name.

    Raises:
        InvalidParams: The name is another's, or unusable.
    """
    now_ms = real_ms(house)
    return await _write(
        house, partial(rename_account, account_id=account_id, name=name, actor=actor, now_ms=now_ms)
    )


async def move(house: House, account_id: str, version: str, actor: str) -> Account:
    """Pin an account to a newer version of the API, from its next request on.

    Raises:
        UnknownApiVersion: There is no such version.
        InvalidApiVersion: It is a preview.
        ApiVersionDowngrade: It is older than the account's own.
    """
    return await _write(
        house,
        partial(
            move_account,
            account_id=account_id,
            version=version,
            versions=house.versions,
            actor=actor,
            now_ms=real_ms(house),
        ),
    )


async def _write(house: House, step: Callable[[Tx], Account]) -> Account:
    """Write an account, then have the doors know it, also when who asked leaves in between."""

    def tell(written: Account) -> None:
        house.accounts[written.id] = written

    return await house.office.write_and_tell(tell, step)


async def _create(house: House, args: _AccountCreate) -> _AccountWire:
    now_ms = real_ms(house)
    made = Account(new_id("acct_", now_ms, house.entropy), args.name, DEFAULT, now_ms)
    return _wire(await _write(house, partial(insert_account, account=made)))


async def _list(house: House, _args: Args) -> list[_AccountWire]:
    return [_wire(account) for account in await house.office.read(list_accounts)]


async def _rename(house: House, args: _Rename) -> _AccountWire:
    account = house.office.point(choose_account, args.account)
    return _wire(await rename(house, account.id, args.name, ACTOR))


async def _move(house: House, args: _Move) -> _AccountWire:
    account = house.office.point(choose_account, args.account)
    return _wire(await move(house, account.id, args.version, ACTOR))


ACCOUNT_COMMANDS: Final[dict[str, Command]] = {
    "account.create": Command(_AccountCreate, _create),
    "account.list": Command(Args, _list, changes=False),
    "account.rename": Command(_Rename, _rename),
    "account.version": Command(_Move, _move),
}
"""The commands on accounts."""


def _wire(account: Account) -> _AccountWire:
    return _AccountWire(account.id, account.name, account.api_version, iso_ms(account.created_at_ms))
