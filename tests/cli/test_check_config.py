"""`payd check-config` shows what is in effect, and names the line of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.config import KEYS, ROWS
from tests.terminal import Terminal


def test_every_key_is_shown_with_its_value(payd: Terminal) -> None:
    shown = payd.json("check-config")
    assert shown["file"] is None
    assert set(shown["values"]) == set(KEYS)
    assert shown["values"]["listen"] == "127.0.0.1:8420"
    assert shown["values"]["payments.lifetime_s"] == 900
    assert shown["values"]["webhooks.test.allow_networks"] == []


def test_a_person_sees_what_differs_from_the_default(payd: Terminal) -> None:
    Path("payd.toml").write_text("[payments]\nlifetime_s = 60\n")
    lines = payd("check-config").output.splitlines()
    assert lines[0] == "File: payd.toml"
    [changed] = [line for line in lines if line.startswith("payments.lifetime_s")]
    assert changed.split()[1:4] == ["*", "60", "seconds"]
    assert max(map(len, lines)) <= 80, "it fits a terminal"
    [default] = [line for line in lines if line.startswith("api.body_max")]
    assert "*" not in default


def test_a_mistake_ends_with_2_and_names_its_line(payd: Terminal) -> None:
    Path("payd.toml").write_text("[payments]\n\nlifetime_ms = 60\n")
    assert "payd.toml:3: unknown key payments.lifetime_ms" in payd.error("check-config", code=2)
    assert "payd.toml:3" in payd.error("key", "list", code=2), "every command says so"


def test_a_named_file_is_read(payd: Terminal) -> None:
    Path("other.toml").write_text("[payments]\nlifetime_s = 60\n")
    assert payd.json("check-config", "--config", "other.toml")["values"]["payments.lifetime_s"] == 60
    said = payd.error("check-config", "--config", "nope.toml", code=2)
    assert said == "Error: nope.toml: cannot be read: No such file or directory\n", "no number of an error"


def test_the_data_directory_can_be_typed(payd: Terminal) -> None:
    assert payd.json("check-config", "--data-dir", "elsewhere")["values"]["data_dir"] == "elsewhere"


def test_a_variable_that_sets_nothing_is_pointed_out(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYD_LISTN", "127.0.0.1:1")
    result = payd("check-config")
    assert "PAYD_LISTN sets nothing. Did you mean PAYD_LISTEN?" in result.stderr
    assert "PAYD_LISTN" not in result.stdout


def test_a_secret_is_not_shown(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYD_WEBHOOKS_PROXY", "http://user:hunter2@proxy.example:3128")
    shown = payd("check-config").output
    assert "hunter2" not in shown
    assert payd.json("check-config")["values"]["webhooks.proxy"] == "(set)"
    assert payd.json("check-config")["values"]["metrics.token"] == ""


TABLES = """
[rates]
source = "table"
table = { "USDC/USD" = "1", "TUSD/USD" = "0.99" }

[fee]
percent = "0.50"

[[chains]]
id = "eip155:8453"
rpc = ["https://node.example/v2/hunter2", "http://127.0.0.1:8545"]
ws = "wss://node.example/hunter2"
max_fee_gwei = "0.000000001"

[[chains]]
id = "eip155:31337"
rpc = ["http://127.0.0.1:8546"]

[[assets]]
asset = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
symbol = "USDC"
name = "USD Coin"
decimals = 6
kind = "eip3009"
domain = { name = "USDC", version = "2" }
par = "USD"

[[assets]]
asset = "eip155:31337/erc20:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
symbol = "TUSD"
name = "Test Dollar"
decimals = 18
kind = "erc20"
"""


def test_the_tables_of_chains_and_assets_are_shown_whole(payd: Terminal) -> None:
    Path("payd.toml").write_text(TABLES)
    shown = payd.json("check-config")
    for name in ("chains", "assets"):
        evm = next(iter(ROWS[name].kinds.values()))
        assert [set(row) for row in shown[name]] == [set(evm.keys)] * 2
    base, local = shown["chains"]
    assert (base["rpc"], base["ws"]) == (
        ["https://node.example", "http://127.0.0.1:8545"],
        "wss://node.example",
    )
    assert (base["max_fee_gwei"], base["gas_per_day"], local["ws"]) == ("0.000000001", "0.01", "")
    assert base["depth"] == {"0": 3, "1000": "safe", "10000": "finalized"}
    usdc, tusd = shown["assets"]
    assert (usdc["domain"], usdc["par"]) == ({"name": "USDC", "version": "2"}, "USD")
    assert (tusd["domain"], tusd["par"]) == ("", "")
    assert shown["values"]["rates.table"] == {"USDC/USD": "1", "TUSD/USD": "0.99"}
    assert shown["values"]["fee.percent"] == "0.50"


def test_a_person_sees_what_differs_in_a_table_from_what_ships_for_its_chain_or_asset(payd: Terminal) -> None:
    Path("payd.toml").write_text(TABLES)
    lines = payd("check-config").output.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("[[")]
    assert [lines[number] for number in starts] == ["[[chains]]", "[[chains]]", "[[assets]]", "[[assets]]"]
    tables = [lines[start:end] for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    changed = [[line.split()[0] for line in table if " * " in line] for table in tables]
    assert changed == [["ws", "max_fee_gwei"], [], ["domain"], []]
    [depth] = [line for line in tables[0] if line.split()[0] == "depth"]
    assert depth.split(maxsplit=1)[1] == "{ 0 = 3, 1000 = safe, 10000 = finalized }"
    assert max(map(len, lines)) <= 80, "it fits a terminal"


def test_a_chain_of_solana_is_shown_with_the_keys_of_its_kind(payd: Terminal) -> None:
    Path("payd.toml").write_text(
        '[[chains]]\nid = "solana:mainnet"\nrpc = ["https://node.example/hunter2"]\n'
    )
    [shown] = payd.json("check-config")["chains"]
    assert (shown["depth"], shown["unit_price_max"]) == ({"0": "confirmed", "10000": "finalized"}, 1_000_000)
    assert "max_fee_gwei" not in shown
    lines = payd("check-config").output.splitlines()
    [price] = [line for line in lines if line.strip().startswith("unit_price_max")]
    assert price.split(maxsplit=1)[1] == "1000000 micro-lamports for a compute unit"
    assert max(map(len, lines)) <= 80, "it fits a terminal"


def test_the_key_in_a_nodes_url_is_not_shown(payd: Terminal) -> None:
    Path("payd.toml").write_text(TABLES)
    assert "hunter2" not in payd("check-config").output + payd("check-config", "--json").output
    Path("payd.toml").write_text(TABLES.replace("https://", "ftp://"))
    said = payd.error("check-config", code=2)
    assert "chains[0].rpc must be a list of 1 to 8 different http or https URLs" in said
    assert "hunter2" not in said


def test_the_password_of_the_relayer_is_read_elsewhere_and_no_unknown_variable(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYD_RELAYER_PASSWORD", "hunter2")
    result = payd("check-config")
    assert "PAYD_RELAYER_PASSWORD" not in result.stderr
    assert "hunter2" not in result.output


def test_chains_in_a_variable_are_an_error_that_says_where_they_go(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYD_CHAINS", "eip155:8453=https://node.example")
    assert "put [[chains]] into payd.toml" in payd.error("check-config", code=2)
