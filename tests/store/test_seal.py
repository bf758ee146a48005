"""Sealed secrets: readable with the key and for their subject, and with nothing else."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from Crypto.Cipher import ChaCha20_Poly1305

from payd.core.errors import SealBroken
from payd.store.seal import KEY_BYTES, Seal, SealKeyUnusable, load_key

SECRET = b"whsec_c2VjcmV0"


def test_what_was_sealed_opens_again() -> None:
    seal = Seal(bytes(KEY_BYTES))

    assert seal.open(seal.seal(SECRET, "ep_1"), "ep_1") == SECRET


def test_without_the_key_it_does_not_open_and_shows_nothing() -> None:
    sealed = Seal(bytes(KEY_BYTES)).seal(SECRET, "ep_1")

    assert SECRET not in sealed
    with pytest.raises(SealBroken):
        Seal(bytes([1] * KEY_BYTES)).open(sealed, "ep_1")


def test_a_derived_secret_stays_the_same_for_its_key_and_purpose_alone() -> None:
    first = Seal(bytes(KEY_BYTES)).derive("listen:acct_1")

    assert len(first) == 32
    assert Seal(bytes(KEY_BYTES)).derive("listen:acct_1") == first
    assert Seal(bytes(KEY_BYTES)).derive("listen:acct_2") != first
    assert Seal(bytes([1] * KEY_BYTES)).derive("listen:acct_1") != first


def test_in_another_row_it_does_not_open() -> None:
    seal = Seal(bytes(KEY_BYTES))
    with pytest.raises(SealBroken, match="ep_2"):
        seal.open(seal.seal(SECRET, "ep_1"), "ep_2")


def test_a_changed_byte_anywhere_breaks_it() -> None:
    seal = Seal(bytes(KEY_BYTES))
    sealed = seal.seal(SECRET, "ep_1")
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(SealBroken):
            seal.open(bytes(changed), "ep_1")
        with pytest.raises(SealBroken):
            seal.open(sealed[:place], "ep_1")


def test_the_same_secret_never_looks_the_same() -> None:
    seal = Seal(bytes(KEY_BYTES))

    assert seal.seal(SECRET, "ep_1") != seal.seal(SECRET, "ep_1")


def test_the_cipher_is_the_one_of_the_published_vector() -> None:
    # draft-irtf-cfrg-xchacha-03, appendix A.3.1: the first bytes of the text and its tag.
    key = bytes(range(0x80, 0xA0))
    cipher = ChaCha20_Poly1305.new(key=key, nonce=bytes(range(0x40, 0x58)))
    cipher.update(bytes.fromhex("50515253c0c1c2c3c4c5c6c7"))
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future,"
        b" sunscreen would be it."
    )
    hidden, tag = cipher.encrypt_and_digest(text)

    assert hidden[:8].hex() == "bd6d179d3e83d43b"
    assert tag.hex() == "c0875924c1c7987947deafd8780acf49"


def test_its_repr_tells_nothing() -> None:
    assert repr(Seal(b"k" * KEY_BYTES)) == "Seal(…)"


def test_a_key_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="32"):
        Seal(b"short")


def test_the_key_file_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "seal.key"
    key = load_key(path)

    assert len(key) == KEY_BYTES
    assert load_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["seal.key"]


def test_a_disk_that_knows_of_no_links_can_have_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as FAT, mounted for its owner alone; `swap.py` takes it, too."""

    def refuse(source: Path, _target: Path) -> None:
        raise OSError(errno.EPERM, "no", str(source))

    monkeypatch.setattr(os, "link", refuse)
    assert load_key(tmp_path / "seal.key") == load_key(tmp_path / "seal.key")


def test_a_key_on_a_disk_that_is_not_there_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "seal.key").symlink_to(tmp_path / "unmounted" / "seal.key")
    with pytest.raises(FileNotFoundError):
        load_key(tmp_path / "seal.key")
    assert [each.name for each in tmp_path.iterdir()] == ["seal.key"]


def test_a_draft_of_a_crash_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "seal.key.new").write_text("half")

    assert len(load_key(tmp_path / "seal.key")) == KEY_BYTES


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seal.key"
    load_key(path)
    path.chmod(0o640)
    with pytest.raises(SealKeyUnusable, match="chmod 600"):
        load_key(path)


@pytest.mark.parametrize("text", ["", "zz", "00" * 31, "00" * 33, "é"])
def test_a_spoilt_key_file_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "seal.key"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(SealKeyUnusable, match="backup"):
        load_key(path)

    assert path.read_text(encoding="utf-8") == text
