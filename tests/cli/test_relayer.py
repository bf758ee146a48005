"""`payd relayer` makes the key that pays for gas, and says what it is and is not."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path

import pytest
from solders.keypair import Keypair

from payd.chains.keystore import unlock
from payd.core.caip import to_checksum_address
from tests.terminal import Terminal


@pytest.fixture
def password_file(payd: Terminal) -> Path:
    path = payd.folder / "password"
    path.write_text("a password\n")
    return path


def made(payd: Terminal, password_file: Path) -> str:
    return payd("relayer", "create", "relayer.json", "--small", "--password-file", str(password_file)).output


def test_it_makes_a_key_that_its_password_opens(payd: Terminal, password_file: Path) -> None:
    shown = made(payd, password_file)
    address = to_checksum_address(unlock(Path("relayer.json"), "a password").signer().address)
    assert address in shown
    assert stat.S_IMODE(Path("relayer.json").stat().st_mode) == 0o600


def test_it_says_how_to_fund_it_and_what_can_be_lost(payd: Terminal, password_file: Path) -> None:
    shown = made(payd, password_file)
    assert "native coin of each EVM chain" in shown
    assert "the second one some SOL" in shown
    assert "can take that gas money, and nothing else" in shown
    assert "a password" not in shown


def test_what_is_to_be_put_into_payd_toml_works_from_any_folder(payd: Terminal, password_file: Path) -> None:
    shown = made(payd, password_file)
    section = tomllib.loads(shown[shown.index("[relayer]") :])["relayer"]
    assert section == {
        "keystore": str(payd.folder / "relayer.json"),
        "password_file": str(payd.folder / "password"),
    }


def test_the_password_may_come_from_a_variable(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYD_RELAYER_PASSWORD", "from a variable")
    shown = payd("relayer", "create", "relayer.json", "--small").output
    assert unlock(Path("relayer.json"), "from a variable").signer().address
    assert "PAYD_RELAYER_PASSWORD" in shown
    assert tomllib.loads(shown[shown.index("[relayer]") :])["relayer"].keys() == {"keystore"}


def test_else_it_asks_twice(payd: Terminal) -> None:
    payd("relayer", "create", "relayer.json", "--small", input="typed\ntyped\n")
    assert unlock(Path("relayer.json"), "typed").signer().address


def test_two_different_answers_make_nothing(payd: Terminal) -> None:
    payd("relayer", "create", "relayer.json", "--small", input="typed\nmistyped\n", code=1)
    assert not Path("relayer.json").exists()


def test_programs_get_the_addresses_and_nothing_else(
    payd: Terminal, password_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYD_RELAYER_PASSWORD", "x")
    found = payd.json("relayer", "create", "relayer.json", "--small")
    assert found == {
        "address": to_checksum_address(unlock(Path("relayer.json"), "x").signer().address),
        "solana_address": str(unlock(Path("relayer.json"), "x").fee_payer().address),
        "keystore": "relayer.json",
    }
    assert payd.json("relayer", "show", "relayer.json") == found


def test_the_addresses_are_shown_without_the_password(payd: Terminal, password_file: Path) -> None:
    made(payd, password_file)
    password_file.unlink()
    opened = unlock(Path("relayer.json"), "a password")
    shown = payd("relayer", "show", "relayer.json").output
    assert to_checksum_address(opened.signer().address) in shown
    assert str(opened.fee_payer().address) in shown


def test_an_address_that_the_file_does_not_say_is_shown_with_the_password(
    payd: Terminal, password_file: Path
) -> None:
    made(payd, password_file)
    solana = payd.json("relayer", "show", "relayer.json")["solana_address"]
    content = json.loads(Path("relayer.json").read_text())
    del content["solana_address"]
    Path("relayer.json").write_text(json.dumps(content))
    assert payd.json("relayer", "show", "relayer.json")["solana_address"] is None
    assert "--password-file" in payd("relayer", "show", "relayer.json").output
    shown = payd("relayer", "show", "relayer.json", "--password-file", str(password_file)).output
    assert solana in shown


def test_what_is_exported_is_the_key_that_wallets_import(payd: Terminal, password_file: Path) -> None:
    made(payd, password_file)
    result = payd("relayer", "export", "relayer.json", input="a password\n")
    keys = Keypair.from_base58_string(result.stdout.strip())
    assert str(keys.pubkey()) == payd.json("relayer", "show", "relayer.json")["solana_address"]
    assert "can take all SOL of this key" in result.stderr
    assert "a password" not in result.output


def test_nothing_is_exported_to_who_does_not_type_the_password(
    payd: Terminal, password_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(payd, password_file)
    monkeypatch.setenv("PAYD_RELAYER_PASSWORD", "a password")
    result = payd("relayer", "export", "relayer.json", input="another\n", code=1)
    assert "does not open" in result.stderr
    assert result.stdout.strip() == ""
    assert payd("relayer", "export", "relayer.json", input="", code=1).stdout.strip() == ""


def test_a_key_is_never_overwritten(payd: Terminal, password_file: Path) -> None:
    made(payd, password_file)
    before = Path("relayer.json").read_bytes()
    again = ("relayer", "create", "relayer.json", "--small", "--password-file", str(password_file))
    assert "never overwritten" in payd.error(*again)
    assert Path("relayer.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "none.json"), "There is no keystore none.json"),
        (("create", "relayer.json", "--password-file", "none"), "There is no password file none"),
        (("create", "nowhere/relayer.json", "--small", "--password-file", "password"), "No such file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    payd: Terminal, password_file: Path, words: tuple[str, ...], said: str
) -> None:
    assert said in payd.error("relayer", *words)
