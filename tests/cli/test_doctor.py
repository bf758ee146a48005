"""`payd doctor`: a table for people, JSON for programs, an exit code for both."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.live.street import configuration, write_keystore
from tests.terminal import Terminal, on_terminal

NODE = "http://127.0.0.1:9/v2/s3cret?key=s3cret"


def live(payd: Terminal, text: str = "", *, password: str | None = None) -> None:
    """A configuration with a chain whose only node is down."""
    write_keystore(payd.folder)
    (payd.folder / "payd.toml").write_text(text or configuration([NODE]))
    if password is not None:
        (payd.folder / "password").write_text(password)


def levels(found: dict[str, Any]) -> dict[str, str]:
    """The worst of each subject."""
    order = ("ok", "warning", "error")
    worst: dict[str, str] = {}
    for one in found["findings"]:
        before = worst.get(one["subject"], "ok")
        worst[one["subject"]] = max(before, one["level"], key=order.index)
    return worst


def test_a_house_in_test_mode_is_well(begun: Terminal) -> None:
    shown = begun("doctor").output
    assert "0 errors, 1 warning." in shown, "no server runs"
    assert "off: no chain is configured" in shown
    found = begun.json("doctor")
    assert found["worst"] == "warning"
    assert set(found["findings"][0]) == {"level", "subject", "words", "whatToDo"}


def test_a_mistake_in_payd_toml_is_found_and_ends_with_one(begun: Terminal) -> None:
    (begun.folder / "payd.toml").write_text("listen = 5\nlisten_ = 1\n")
    (begun.folder / "data" / "payd.toml").unlink()
    done = begun("doctor", "--json", code=1)
    assert '"error"' in done.stdout
    assert "payd.toml:1" in done.stdout
    assert "check-config" in done.stdout


def test_a_file_that_is_not_there_is_an_error(payd: Terminal) -> None:
    assert "none.toml" in payd("doctor", "--config", "none.toml", code=1).output


def test_a_chain_without_a_node_is_an_error_and_its_url_is_not_shown(payd: Terminal) -> None:
    live(payd)
    shown = payd("doctor", code=1).output
    found = payd("doctor", "--json", code=1).stdout
    for text in (shown, found):
        assert "http://127.0.0.1:9" in text
        assert "s3cret" not in text
        assert "a password of a test" not in text


def test_a_password_that_opens_nothing_is_an_error_and_none_at_all_a_warning(payd: Terminal) -> None:
    live(payd, password="wrong s3cret")
    wrong = payd("doctor", "--json", code=1).stdout
    assert "does not open" in wrong
    assert "s3cret" not in wrong

    live(payd, configuration([NODE]).replace('"password"', '""'))
    none = payd("doctor", "--json", code=1).stdout
    assert "nothing here opens it" in none
    assert "PAYD_RELAYER_PASSWORD" in none


def test_a_narrow_terminal_gets_one_finding_after_the_other(
    begun: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch, columns=60)
    shown = begun("doctor").output
    assert "warning  server: none runs" in shown
    assert "→ Start it:" in shown


def test_a_command_to_paste_stays_in_the_house_that_was_looked_at(payd: Terminal) -> None:
    (payd.folder / "my payd.toml").touch()
    typed = ("--config", "my payd.toml", "--data-dir", "my data")
    same = " --config 'my payd.toml' --data-dir 'my data'"

    def told(*options: str, code: int = 0) -> list[str]:
        found = json.loads(payd("doctor", "--json", *typed, *options, code=code).stdout)
        return [one["whatToDo"] for one in found["findings"]]

    assert any(f"payd init{same}" in todo for todo in told())
    payd("init", *typed)
    (payd.folder / "my data" / "test.db").write_bytes(b"no database" * 1000)
    (payd.folder / "my data" / "live.db").touch()
    found = told(code=1)
    for command in ("serve", "backup DEST", "restore SRC --overwrite"):
        assert any(f"payd {command}{same}" in todo for todo in found), command
    (payd.folder / "my payd.toml").write_text("listen = 5")
    assert any(f"payd check-config{same}" in todo for todo in told(code=1))


def test_damage_in_a_database_is_an_error_with_the_way_back(begun: Terminal) -> None:
    begun("backup", "my backup")
    path = begun.folder / "data" / "test.db"
    data = bytearray(path.read_bytes())
    assert "no damage in office.db, test.db" in begun("doctor").output
    for page in range(2, len(data) // 4096):
        data[page * 4096 : page * 4096 + 2048] = b"\xff" * 2048
    path.write_bytes(data)
    back = f"payd restore '{begun.folder / 'my backup'}' --overwrite"
    for options in ((), ("--deep",)):
        found = json.loads(begun("doctor", "--json", *options, code=1).stdout)
        [damage, well] = [one for one in found["findings"] if one["subject"] == "databases"]
        assert (damage["level"], well["words"]) == ("error", "no damage in office.db")
        assert damage["words"].startswith("test.db is damaged: ")
        assert damage["whatToDo"].endswith(back)
    begun(*shlex.split(back)[1:])
    assert "no damage in office.db, test.db" in begun("doctor").output


def test_nothing_is_changed(begun: Terminal) -> None:
    data = begun.folder / "data"
    before = {file: file.read_bytes() for file in data.iterdir()}
    begun("doctor")
    assert {file: file.read_bytes() for file in data.iterdir()} == before
