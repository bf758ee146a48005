"""What an operator has the server do for backups."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from payd.core.errors import InvalidParams
from payd.store.manifest import Manifest, read_manifest
from payd.web.commands import run_command
from tests.shop import Shop


async def test_a_backup_is_made_by_command(shop: Shop, tmp_path: Path) -> None:
    args = msgspec.json.encode({"dest": str(tmp_path / "backup")})
    made = await run_command(shop.house, "backup.make", args)
    assert msgspec.convert(msgspec.to_builtins(made), Manifest) == read_manifest(tmp_path / "backup")
    assert await run_command(shop.house, "backup.progress", b"{}") is None
    assert await run_command(shop.house, "backup.stop", b"{}") == {"stopped": False}


async def test_a_place_that_depends_on_where_one_stands_is_refused(shop: Shop) -> None:
    with pytest.raises(InvalidParams, match="absolute"):
        await run_command(shop.house, "backup.make", b'{"dest": "backup"}')
