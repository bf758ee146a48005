"""`payd init` makes everything a newcomer starts with, once."""

from __future__ import annotations

import stat
from pathlib import Path

from payd.cli.seed import DESTINATIONS
from payd.config import load
from payd.store.lock import hold_data_dir
from payd.store.migrate import bring_up_to_date
from tests.store.test_db_faults import files_up_to
from tests.terminal import Terminal


def test_it_makes_an_account_a_key_a_merchant_and_its_destinations(payd: Terminal) -> None:
    made = payd.json("init")
    assert made["made"] is True
    assert made["apiKey"].startswith("svc_test_")
    assert [account["id"] for account in payd.json("account", "list")] == [made["accountId"]]
    assert [merchant["id"] for merchant in payd.json("merchant", "list")] == [made["merchantId"]]
    destinations = payd.json("merchant", "destinations", made["merchantId"])
    assert sorted((each["asset"], each["destination"]) for each in destinations) == sorted(DESTINATIONS)


def test_a_person_gets_the_key_and_a_line_to_paste(payd: Terminal) -> None:
    shown = payd("init").output
    [key] = [line.strip() for line in shown.splitlines() if line.startswith("  svc_test_")]
    [curl] = [line for line in shown.splitlines() if line.startswith("curl ")]
    assert key in curl
    assert "http://127.0.0.1:8420/v1/payments" in curl
    assert "payd serve" in shown


def test_the_test_realm_may_call_this_machine_afterwards(payd: Terminal) -> None:
    payd("init")
    config = load()
    assert config.file == Path("data/payd.toml")
    assert config.webhooks.test.allow_http
    assert config.data_dir == Path("data")
    assert not config.webhooks.live.allow_networks


def test_the_folder_is_its_owners_alone(payd: Terminal) -> None:
    payd("init")
    assert stat.S_IMODE(Path("data").stat().st_mode) == 0o700
    assert stat.S_IMODE(Path("data/seal.key").stat().st_mode) == 0o600


def test_a_second_time_changes_nothing(begun: Terminal) -> None:
    keys = begun.json("key", "list")
    assert "nothing was changed" in begun("init").output
    assert begun.json("init") == {"dataDir": "data", "made": False}
    assert begun.json("key", "list") == keys


def test_databases_without_an_account_are_no_reason_to_refuse(payd: Terminal) -> None:
    Path("data").mkdir()
    bring_up_to_date(Path("data/office.db"), "office")
    assert payd.json("init")["made"] is True
    assert load().webhooks.test.allow_http


def test_a_configuration_of_ones_own_is_left_alone(payd: Terminal) -> None:
    Path("payd.toml").write_text("[payments]\nlifetime_s = 60\n")
    payd("init")
    assert not Path("data/payd.toml").exists()
    Path("mine.toml").write_text('data_dir = "mine"\n')
    payd("init", "--config", "mine.toml")
    assert not Path("mine/payd.toml").exists()
    assert Path("mine/office.db").exists()
    Path("named").mkdir()
    Path("named/empty.toml").touch()
    payd("init", "--config", "named/empty.toml")
    assert not Path("named/data/payd.toml").exists()


def test_an_empty_configuration_that_lies_with_the_data_is_left_alone(payd: Terminal) -> None:
    Path("data").mkdir()
    Path("data/payd.toml").write_text("# mine\n")
    payd("init")
    assert Path("data/payd.toml").read_text() == "# mine\n"


def test_where_another_process_begins_nothing_is_written(payd: Terminal) -> None:
    with hold_data_dir("data"):
        for command in (["init"], ["serve", "--demo", "--listen", "127.0.0.1:0"]):
            payd.error(*command, code=3)
            assert not Path("data/payd.toml").exists()


def test_a_file_that_only_shows_the_defaults_is_no_configuration(payd: Terminal) -> None:
    shipped = Path(__file__).parents[2] / "payd.toml"
    Path("payd.toml").write_text(shipped.read_text())
    payd("init")
    assert load().file == Path("data/payd.toml")


def test_a_disk_without_room_for_the_configuration_leaves_none(payd: Terminal) -> None:
    with files_up_to(100):
        assert "File too large" in payd.error("init")
    assert not Path("data/payd.toml").exists()
    assert payd.json("init")["made"] is True
    assert load().webhooks.test.allow_http
    assert not list(Path("data").glob("payd.toml.*"))


def test_another_folder_is_named_in_what_comes_next(payd: Terminal) -> None:
    assert "payd serve --data-dir elsewhere" in payd("init", "--data-dir", "elsewhere").output
    assert payd.json("key", "list", "--data-dir", "elsewhere")[0]["name"] == "first key"
