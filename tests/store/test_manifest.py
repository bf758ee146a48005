"""A manifest that is not whole, or that leads elsewhere, is none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from payd.store.manifest import BackupUnusable, Kept, Manifest, check_file, encode_manifest, read_manifest

KEPT = Kept("test.db", "database", 3, "0" * 64, "realm", 9)
MANIFEST = Manifest(1, "0.1.0", "2026-11-23T00:00:00.000Z", False, (KEPT,))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(encode_manifest(MANIFEST))
    assert read_manifest(tmp_path) == MANIFEST
    assert MANIFEST.bytes() == 3


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_one_that_is_cut_short_is_refused(tmp_path: Path, cut: int) -> None:
    (tmp_path / "manifest.json").write_bytes(encode_manifest(MANIFEST)[:cut])
    with pytest.raises(BackupUnusable, match="is damaged"):
        read_manifest(tmp_path)


def test_a_folder_without_one_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(BackupUnusable, match="no whole backup"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["../test.db", "/etc/passwd", "a/../../b", "", "a//b", "./a"])
def test_a_name_outside_of_the_backup_is_refused(tmp_path: Path, name: str) -> None:
    evil = msgspec.structs.replace(MANIFEST, files=(msgspec.structs.replace(KEPT, name=name),))
    (tmp_path / "manifest.json").write_bytes(encode_manifest(evil))
    with pytest.raises(BackupUnusable, match="which no backup does"):
        read_manifest(tmp_path)


def test_another_format_names_the_payd_that_knows_it(tmp_path: Path) -> None:
    later = msgspec.structs.replace(MANIFEST, format=2, payd="9.9")
    (tmp_path / "manifest.json").write_bytes(encode_manifest(later))
    with pytest.raises(BackupUnusable, match=r"restore it with payd 9\.9"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(("size", "sha256"), [(-1, ""), (4, "0" * 64), (3, "1" * 64)])
def test_a_file_that_is_another_one_is_refused(tmp_path: Path, size: int, sha256: str) -> None:
    check_file(tmp_path, KEPT, 3, "0" * 64)
    with pytest.raises(BackupUnusable, match=r"test\.db is not"):
        check_file(tmp_path, KEPT, size, sha256)
