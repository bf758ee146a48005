"""What an operator has the server do for backups.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from payd.core.errors import InvalidParams
from payd.web.command import Args, Command

if TYPE_CHECKING:
    from payd.actors.backups import Backups
    from payd.web.house import House


class _Make(Args, frozen=True, kw_only=True):
    dest: str
    with_keys: bool = False


async def _make(house: House, args: _Make) -> Any:
    """Make a backup, and say what is in it."""
    dest = Path(args.dest)
    if not dest.is_absolute():
        raise InvalidParams("dest: an absolute path; the server has another current folder than you.")
    return await _backups(house).make(dest, with_keys=args.with_keys)


async def _progress(house: House, _args: Args) -> Any:
    """How far the backup is that is being made; null while there is none."""
    return _backups(house).progress


async def _stop(house: House, _args: Args) -> Any:
    """Have it end; nothing is left of it."""
    return {"stopped": _backups(house).stop()}


def _backups(house: House) -> Backups:
    assert house.backups is not None, "a house with files can be backed up"
    return house.backups


BACKUP_COMMANDS: Final[dict[str, Command]] = {
    "backup.make": Command(_Make, _make, needs_server=True),
    "backup.progress": Command(Args, _progress, needs_server=True, changes=False),
    "backup.stop": Command(Args, _stop, needs_server=True),
}
"""The commands of `payd backup`. Without a server, the command line does it itself."""
