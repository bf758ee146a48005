"""The relayer's key in its file: made once, opened with its password, refused in words."""

from __future__ import annotations

import json
import pickle
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from eth_account import Account

from payd.chains.keystore import (
    FILE_BYTES_MAX,
    SCRYPT_N,
    SCRYPT_N_SMALL,
    KeystoreUnusable,
    addresses_in,
    create,
    read_key,
    read_password,
    unlock,
)
from tests.store.test_hand_over import Root

PASSWORD = "correct horse – battery"
KEY = bytes(31) + b"\7"

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A keystore that opens fast."""
    path = tmp_path / "relayer.json"
    create(path, PASSWORD, small=True, entropy=lambda count: KEY[:count])
    return path


def changed(file: Path, change: Change) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def why_not(file: Path, password: str = PASSWORD) -> str:
    with pytest.raises(KeystoreUnusable) as unusable:
        unlock(file, password)
    assert unusable.value.__context__ is None or unusable.value.__suppress_context__
    return str(unusable.value)


def test_what_root_makes_belongs_to_whom_the_folder_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(monkeypatch, tmp_path)
    create(tmp_path / "relayer.json", PASSWORD, small=True)
    assert root.kept() == set()


def test_what_was_made_is_opened_with_its_password(tmp_path: Path) -> None:
    path = tmp_path / "relayer.json"
    made = create(path, PASSWORD, small=True)
    opened = unlock(path, PASSWORD)
    assert (opened.signer().address, str(opened.fee_payer().address)) == made == addresses_in(path)


def test_who_has_the_password_may_have_the_key_itself(file: Path) -> None:
    assert read_key(file, PASSWORD) == KEY


def test_the_key_comes_from_the_one_source_of_randomness(file: Path) -> None:
    assert unlock(file, PASSWORD).signer().address == Account.from_key(KEY).address.lower()


def test_two_keystores_have_two_keys(tmp_path: Path) -> None:
    made = [create(tmp_path / name, PASSWORD, small=True) for name in ("a", "b")]
    assert made[0].evm != made[1].evm
    assert made[0].solana != made[1].solana


def test_bytes_that_are_no_key_are_drawn_again(tmp_path: Path) -> None:
    drawn = [KEY, b"\xff" * 32, bytes(32)]
    made = create(tmp_path / "relayer.json", PASSWORD, small=True, entropy=lambda _count: drawn.pop())
    assert made.evm == Account.from_key(KEY).address.lower()


def test_another_program_opens_it(file: Path) -> None:
    assert bytes(Account.decrypt(file.read_text(), PASSWORD)) == KEY


def test_what_another_program_made_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "relayer.json"
    path.touch(0o600)
    kdfs: tuple[tuple[Literal["scrypt", "pbkdf2"], int], ...] = (("scrypt", 1024), ("pbkdf2", 1000))
    for kdf, rounds in kdfs:
        path.write_text(json.dumps(Account.encrypt(KEY, PASSWORD, kdf=kdf, iterations=rounds)))
        assert unlock(path, PASSWORD).signer().address == Account.from_key(KEY).address.lower()


def test_guessing_the_password_is_dear_unless_the_machine_is_small(tmp_path: Path, file: Path) -> None:
    create(tmp_path / "large.json", PASSWORD)
    for path, n in ((file, SCRYPT_N_SMALL), (tmp_path / "large.json", SCRYPT_N)):
        crypto = json.loads(path.read_text())["crypto"]
        assert crypto["kdf"] == "scrypt"
        assert (crypto["kdfparams"]["n"], crypto["kdfparams"]["r"]) == (n, 8)


def test_the_file_is_its_owners_alone_and_holds_no_key_in_the_clear(file: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert KEY.hex() not in file.read_text()
    assert PASSWORD not in file.read_text()


def test_a_file_that_is_there_is_never_overwritten(file: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(KeystoreUnusable, match="never overwritten"):
        create(file, PASSWORD, small=True)
    assert file.read_bytes() == before


def test_a_link_to_nowhere_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "relayer.json"
    link.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(KeystoreUnusable, match="never overwritten"):
        create(link, PASSWORD, small=True)
    assert not (tmp_path / "elsewhere.json").exists()


def test_an_empty_password_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeystoreUnusable, match="empty password"):
        create(tmp_path / "relayer.json", "")
    assert not (tmp_path / "relayer.json").exists()


def test_a_password_that_is_no_text_is_refused_and_not_told(tmp_path: Path, file: Path) -> None:
    """As Python hands on what a variable has in Latin-1."""
    odd = "gr\udcfcn"
    with pytest.raises(KeystoreUnusable, match="password is not UTF-8") as refused:
        create(tmp_path / "new.json", odd)
    assert refused.value.__suppress_context__, "what was raised first has the password in it"
    assert "password is not UTF-8" in why_not(file, odd), "the file is not damaged"
    assert not (tmp_path / "new.json").exists()


def test_another_password_does_not_open_it(file: Path) -> None:
    assert why_not(file, PASSWORD + " ") == f"The password does not open {file}."


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_may_read_is_refused_with_what_to_do(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert why_not(file) == f"{file} can be read by others. Run: chmod 600 {file}"


def test_a_file_that_is_not_there_is_to_be_made(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    assert why_not(path) == f"There is no keystore {path}. Make one: payd relayer create {path}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"0x" + KEY.hex().encode(),
        b"[]",
        b"{}",
        b'{"version":4,"crypto":{"kdf":"scrypt","kdfparams":{}}}',
        b'{"version":3,"crypto":{"kdf":"argon2","kdfparams":{}}}',
        b'{"version":3,"crypto":[]}',
        b" " * (FILE_BYTES_MAX + 1),
    ],
)
def test_another_file_is_no_keystore(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert "is no keystore of version 3" in why_not(file)
    with pytest.raises(KeystoreUnusable, match="is no keystore of version 3"):
        addresses_in(file)


def without(*path: str) -> Change:
    def change(content: dict[str, Any]) -> None:
        for name in path[:-1]:
            content = content[name]
        del content[path[-1]]

    return change


@pytest.mark.parametrize(
    "change",
    [
        without("crypto", "ciphertext"),
        without("crypto", "cipherparams"),
        without("crypto", "mac"),
        without("crypto", "kdfparams", "n"),
        without("crypto", "kdfparams", "salt"),
        lambda content: content["crypto"].update(mac="zz"),
        lambda content: content["crypto"].update(cipherparams=[]),
        lambda content: content["crypto"]["kdfparams"].update(n="many"),
        lambda content: content["crypto"]["kdfparams"].update(n=-1),
        lambda content: content["crypto"]["kdfparams"].update(n=3),
    ],
)
def test_a_keystore_that_lost_a_part_is_damaged(file: Path, change: Change) -> None:
    changed(file, change)
    assert why_not(file) == f"{file} is damaged. Restore it from a backup."


def test_changed_bytes_do_not_open_as_another_key(file: Path) -> None:
    changed(file, lambda content: content["crypto"].update(ciphertext="00" * 32))
    assert why_not(file) == f"The password does not open {file}."


def test_a_keystore_with_anothers_address_is_refused(file: Path) -> None:
    changed(file, lambda content: content.update(address="11" * 20))
    assert "holds another key than it says" in why_not(file)


@pytest.mark.parametrize("address", ["", "0x", "zz" * 20])
def test_an_address_in_a_keystore_is_one(file: Path, address: str) -> None:
    changed(file, lambda content: content.update(address=address))
    with pytest.raises(KeystoreUnusable, match="an address in it that is none"):
        addresses_in(file)


@pytest.mark.parametrize("address", ["", "0x" + "11" * 20, "0" * 44, "1" * 31])
def test_an_address_on_solana_in_a_keystore_is_one(file: Path, address: str) -> None:
    changed(file, lambda content: content.update(solana_address=address))
    with pytest.raises(KeystoreUnusable, match="an address in it that is none"):
        addresses_in(file)


def test_a_keystore_with_anothers_address_on_solana_is_refused(file: Path) -> None:
    changed(file, lambda content: content.update(solana_address="1" * 32))
    opened = unlock(file, PASSWORD)
    with pytest.raises(KeystoreUnusable, match="holds another key than it says"):
        opened.fee_payer()


def test_a_keystore_without_addresses_opens_and_says_none(file: Path) -> None:
    solana = addresses_in(file).solana
    changed(file, without("address"))
    changed(file, without("solana_address"))
    opened = unlock(file, PASSWORD)
    assert opened.signer().address == Account.from_key(KEY).address.lower()
    assert str(opened.fee_payer().address) == solana
    assert addresses_in(file) == (None, None)


def test_the_fee_payer_on_solana_is_the_same_for_the_same_key(file: Path) -> None:
    """Another one would leave SOL behind on an account that nobody looks for."""
    assert addresses_in(file).solana == "4rx6HJsnzqL4CLF3BMBpJEQvXKMmUuJ9kSrDjbERFUEo"


def test_a_key_is_in_no_repr_and_is_not_copied(file: Path) -> None:
    opened = unlock(file, PASSWORD)
    assert repr(opened) == f"Unlocked({str(file)!r})"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(opened)


@pytest.mark.parametrize(
    "params",
    [{"n": 2**21, "r": 8, "p": 1}, {"n": 2**14, "r": 2**10, "p": 1}, {"n": 2**17, "r": 8, "p": 1024}],
)
def test_a_keystore_does_not_choose_how_much_memory_payd_takes(file: Path, params: dict[str, int]) -> None:
    changed(file, lambda content: content["crypto"]["kdfparams"].update(params))
    assert "more memory or time" in why_not(file)


def test_a_keystore_does_not_choose_how_long_payd_computes(file: Path) -> None:
    params = {"c": 10**9, "dklen": 32, "prf": "hmac-sha256", "salt": "00"}
    changed(file, lambda content: content["crypto"].update(kdf="pbkdf2", kdfparams=params))
    assert "more memory or time" in why_not(file)


def test_a_file_that_could_not_be_written_whole_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        create(tmp_path / "relayer.json", PASSWORD, small=True)
    assert not (tmp_path / "relayer.json").exists()


def test_the_password_is_the_first_line_of_its_file_or_else_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "password"
    variables = {"PAYD_RELAYER_PASSWORD": "of the variable"}
    path.write_bytes(b"of the file \r\nnot this\n")
    assert read_password(path, variables) == "of the file "
    assert read_password(None, variables) == "of the variable"
    assert read_password(None, {}) is None


def test_a_password_file_that_is_not_there_or_no_text_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(KeystoreUnusable, match="There is no password file"):
        read_password(tmp_path / "none", {"PAYD_RELAYER_PASSWORD": "x"})
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(KeystoreUnusable, match="it is no text"):
        read_password(tmp_path / "bytes", {})
