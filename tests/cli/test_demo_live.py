"""`payd demo --mode live` pays on a real local node, and says what is missing when it cannot."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from payd.cli import demo_live, seed
from payd.cli.chain_wallet import Landed
from payd.cli.demo_live import EVENTS, LiveJob
from payd.cli.failure import Refused, Unreachable
from payd.cli.feed_connection import Message, SecretNews
from payd.cli.running import do
from payd.cli.timeline import Timeline
from payd.config import Config, load
from tests.cli.test_serve import serving
from tests.live.anvil import running_anvil
from tests.live.nodes import SOLANA_GENESIS
from tests.live.test_nodes import running_nodes
from tests.terminal import Terminal

ROOT = Path(__file__).parents[2]
LOCAL_SOLANA = f"solana:{SOLANA_GENESIS[:32]}"


@contextmanager
def on_a_chain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """The first two of the three commands; gives the node's process."""
    monkeypatch.setenv("PYTHONPATH", os.fspath(ROOT))
    monkeypatch.setenv("PAYD_CONFIG", os.fspath(folder / "payd.toml"))
    with running_nodes(folder) as (node, _), serving(folder, "--demo"):
        yield node


@pytest.mark.real_time
def test_a_signature_pays_without_gas_and_everything_is_taken_back(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_a_chain(payd.folder, monkeypatch):
        seen = payd.json("demo", "--mode", "live")
        live = ("--mode", "live")
        assert payd.json("key", "list", *live) == []
        assert [app["name"] for app in payd.json("app", "list", *live) if not app["revokedAt"]] == []
        assert payd.json("merchant", "list", *live) == []
        assert "no webhook endpoint" in payd.error("webhook", "show", *live)

    assert (seen["ok"], seen["missing"]) == (True, [])
    assert seen["events"] == {kind: version for version, kind in enumerate(EVENTS)}
    assert seen["txId"].startswith("0x")
    before, after = seen["balances"]["before"], seen["balances"]["after"]
    assert after["merchant"] - before["merchant"] == before["buyer"] - after["buyer"] == 12_500_000
    assert "the relayer paid the gas" in seen["timeline"][-1]["what"]


@pytest.mark.real_time
def test_a_transaction_pays_its_own_gas_and_a_second_payment_goes_as_the_first(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_a_chain(payd.folder, monkeypatch):
        shown = payd("demo", "--mode", "live", "--send", "--amount", "3").output
        again = payd.json("demo", "--mode", "live", "--send", "--amount", "3")

    assert "takes 0.001000000000000000 ETH" in shown
    assert "the wallet paid the gas" in shown
    assert shown.endswith("Done: paid on the chain, succeeded, settled.\n")
    assert all(len(line) <= 80 for line in shown.splitlines()), shown
    assert again["ok"]
    assert again["balances"]["before"]["merchant"] == 10**15
    assert again["balances"]["after"]["merchant"] == 2 * 10**15


@pytest.mark.real_time
def test_on_solana_a_wallet_without_sol_signs_and_the_server_pays_the_fee(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_a_chain(payd.folder, monkeypatch):
        seen = payd.json("demo", "--mode", "live", "--chain", LOCAL_SOLANA)
        second = payd("demo", "--mode", "live", "--chain", LOCAL_SOLANA, "--amount", "3").output

    assert (seen["ok"], seen["missing"]) == (True, [])
    assert seen["events"] == {kind: version for version, kind in enumerate(EVENTS)}
    before, after = seen["balances"]["before"], seen["balances"]["after"]
    assert after["merchant"] - before["merchant"] == before["buyer"] - after["buyer"] == 12_500_000
    assert "the server paid the network's fee" in seen["timeline"][-1]["what"]
    assert second.endswith("Done: paid on the chain, succeeded, settled.\n")
    lines = [line for line in second.splitlines() if not line.startswith("Transaction ")]
    assert all(len(line) <= 80 for line in lines), second


@pytest.mark.real_time
def test_without_its_node_or_its_server_it_says_what_to_start(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAYD_CONFIG", os.fspath(payd.folder / "payd.toml"))
    with running_nodes(payd.folder):
        said = payd("demo", "--mode", "live", code=3).stderr
        assert f"scripts/run --config {payd.folder / 'payd.toml'}" in said
    said = payd.error("demo", "--mode", "live")
    assert "No node of eip155:31337 answers" in said
    assert "scripts/nodes" in said
    assert "rpc.node_down" not in said, "that is for an operator's log"


def test_a_file_in_the_data_directory_is_found_by_the_server_that_is_to_be_started(payd: Terminal) -> None:
    Path("data").mkdir()
    Path("data/payd.toml").write_text("[payments]\nlifetime_s = 60\n")
    with pytest.raises(Unreachable, match=r"No server runs on data\..* scripts/run --data-dir data\n"):
        trio.run(demo_live._server, load())


@pytest.mark.real_time
def test_a_node_of_another_chain_is_not_paid_on(payd: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYD_CONFIG", os.fspath(payd.folder / "payd.toml"))
    with running_nodes(payd.folder), running_anvil(chain_id=8453) as other:
        file = payd.folder / "payd.toml"
        lines = file.read_text().splitlines()
        file.write_text("\n".join(f'rpc = ["{other.url}"]' if "rpc =" in line else line for line in lines))
        assert "No node of eip155:31337 answers" in payd.error("demo", "--mode", "live")


@pytest.mark.real_time
async def test_the_account_that_a_starting_server_makes_meanwhile_is_taken(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def beaten(config: Config, command: str, args: dict[str, Any]) -> Any:
        if command == "account.create":
            made.append((await do(config, command, args))["id"])
        return await do(config, command, args)

    made: list[str] = []
    monkeypatch.setattr(demo_live, "do", beaten)
    with serving(payd.folder):
        assert await demo_live.account_of(Config(data_dir=payd.folder / "data"), None) == made[0]


@pytest.mark.real_time
async def test_an_account_that_cannot_be_made_is_said_to_be_so(
    payd: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed, "ACCOUNT", "")
    with serving(payd.folder), pytest.raises(Refused, match=r"^account\.create: "):
        await demo_live.account_of(Config(data_dir=payd.folder / "data"), None)


def job() -> LiveJob:
    made = LiveJob(Timeline(quiet=True))
    made.merchant_id = "mrch_1"
    return made


def message(kind: str, version: int = 0, merchant_id: str = "mrch_1", **more: Any) -> Message:
    data = {"merchant_id": merchant_id, "payment_state_version": version, **more}
    return Message("cur_1", msgspec.Raw(msgspec.json.encode({"type": kind, "data": data})))


PROCESSING = {"settlement_amount": {"unit": "caip19/x", "value": "12"}}


def finished() -> LiveJob:
    made = job()
    for version, kind in enumerate(EVENTS):
        made.take(message(kind, version, processing=PROCESSING))
    made.status = {"status": "succeeded", "info": {"txId": "0x1"}}
    made.landed = Landed(True, "block 1 has it")
    made.before, made.after = {"buyer": 50, "merchant": 1}, {"buyer": 38, "merchant": 13}
    return made


async def test_events_of_others_and_news_of_the_secret_are_passed_over() -> None:
    made = job()
    assert made.take(SecretNews())
    assert made.take(message("payment.settled", merchant_id="mrch_2"))
    assert made.events == {}
    assert made.take(message("payment.created"))
    assert not made.settled.is_set()


async def test_with_the_settlement_it_has_heard_enough() -> None:
    made = job()
    assert not made.take(message("payment.settled", 3))
    assert made.settled.is_set()


async def test_nothing_is_missing_when_everything_was_seen() -> None:
    assert finished().missing() == []


@pytest.mark.parametrize("kind", EVENTS)
async def test_each_event_is_missed(kind: str) -> None:
    made = finished()
    del made.events[kind]
    assert f"the event {kind}" in made.missing()


async def test_status_transaction_and_money_must_be_there() -> None:
    made = finished()
    made.status = {"status": "processing"}
    assert made.missing() == ["the status succeeded by REST (it is processing)"]
    made = finished()
    made.landed = Landed(False, "block 1 has it")
    assert made.missing() == ["a transaction that succeeded on the chain"]
    made = finished()
    made.after["merchant"] = 12
    assert made.missing() == ["the money at the merchant's address"]
    assert len(job().missing()) == len(EVENTS) + 3
