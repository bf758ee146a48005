"""`payd doctor`: a table for people, JSON for programs, an exit code for both."""

from __future__ import annotations

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


def test_nothing_is_changed(begun: Terminal) -> None:
    data = begun.folder / "data"
    before = {file: file.read_bytes() for file in data.iterdir()}
    begun("doctor")
    assert {file: file.read_bytes() for file in data.iterdir()} == before
