"""A live demo knows chain, wallet and destination beforehand, and never spends money by accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from payd.cli import seed
from payd.cli.demo_plan import LOCAL, Asked, plan_of
from payd.cli.failure import Refused
from payd.config import Config, load

LOCAL_CHAIN = "eip155:31337"
LOCAL_SOLANA = "solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P"
BASE = "eip155:8453"
MINE = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
REAL = Asked(spends=True, wallet=Path("mine.json"), destination=MINE)


def configured(folder: Path, *chains: str) -> Config:
    tables = [f'[[chains]]\nid = "{chain}"\nrpc = ["http://127.0.0.1:1"]\n' for chain in chains]
    (folder / "payd.toml").write_text("".join(tables))
    return load(folder / "payd.toml")


def refusal(config: Config, asked: Asked) -> str:
    with pytest.raises(Refused) as refused:
        plan_of(config, asked)
    return refused.value.message


def test_without_a_chain_it_says_how_to_get_one(tmp_path: Path) -> None:
    said = refusal(configured(tmp_path), Asked())
    assert "No chain is configured" in said
    assert "scripts/nodes" in said


@pytest.mark.parametrize("number", LOCAL)
def test_on_a_local_chain_wallet_and_destination_are_there_already(tmp_path: Path, number: int) -> None:
    plan = plan_of(configured(tmp_path, f"eip155:{number}"), Asked())
    assert plan.is_local
    assert (plan.wallet, plan.password_file) == (tmp_path / "buyer.json", None)
    assert plan.destination == seed.EVM_ADDRESS


def test_a_password_beside_the_keystore_opens_it_unless_another_is_named(tmp_path: Path) -> None:
    config = configured(tmp_path, LOCAL_CHAIN)
    (tmp_path / "buyer.password").write_text("payd\n")
    assert plan_of(config, Asked()).password_file == tmp_path / "buyer.password"
    assert plan_of(config, Asked(password_file=Path("mine"))).password_file == Path("mine")


def test_on_any_other_chain_nothing_is_spent_unless_it_is_said(tmp_path: Path) -> None:
    config = configured(tmp_path, BASE)
    said = refusal(config, Asked(wallet=Path("mine.json"), destination=MINE))
    assert "Base (eip155:8453) is not a local test chain" in said
    assert "Nothing was done" in said


@pytest.mark.parametrize(
    ("asked", "missing"),
    [
        (Asked(spends=True), "--wallet FILE --destination ADDRESS"),
        (Asked(spends=True, wallet=Path("mine.json")), "--destination ADDRESS"),
        (Asked(spends=True, destination=MINE), "--wallet FILE"),
    ],
)
def test_real_money_is_spent_from_a_named_wallet_to_a_named_address(
    tmp_path: Path, asked: Asked, missing: str
) -> None:
    (tmp_path / "buyer.json").write_text("never taken by itself")
    assert refusal(configured(tmp_path, BASE), asked).endswith(f": {missing}")


def test_with_everything_said_a_real_chain_is_paid_on(tmp_path: Path) -> None:
    plan = plan_of(configured(tmp_path, BASE), REAL)
    assert not plan.is_local
    assert (plan.wallet, plan.destination) == (Path("mine.json"), MINE)
    assert "USDC" in [row.symbol for row in plan.assets]


def test_of_several_chains_one_is_chosen_unless_the_first_is_local(tmp_path: Path) -> None:
    config = configured(tmp_path, BASE, LOCAL_CHAIN)
    assert refusal(config, Asked()).endswith(f"--chain: {BASE}, {LOCAL_CHAIN}")
    assert refusal(config, Asked(chain="eip155:1")).endswith(f"--chain: {BASE}, {LOCAL_CHAIN}")
    assert refusal(config, Asked(chain="x")).endswith(f"--chain: {BASE}, {LOCAL_CHAIN}")
    assert plan_of(config, Asked(chain=LOCAL_CHAIN)).chain.id == LOCAL_CHAIN
    assert plan_of(configured(tmp_path, LOCAL_CHAIN, BASE), Asked()).chain.id == LOCAL_CHAIN


def test_on_a_local_solana_wallet_and_destination_are_there_too(tmp_path: Path) -> None:
    plan = plan_of(configured(tmp_path, LOCAL_SOLANA), Asked())
    assert plan.is_local
    assert plan.wallet == tmp_path / "buyer-solana.json"
    assert plan.destination == seed.SOLANA_ADDRESS


@pytest.mark.parametrize("chain", ["solana:mainnet", "solana:devnet", "solana:testnet"])
def test_a_public_cluster_is_not_local_whoever_serves_it(tmp_path: Path, chain: str) -> None:
    config = configured(tmp_path, chain)
    assert "is not a local test chain" in refusal(config, Asked())
    assert not plan_of(config, Asked(spends=True, wallet=Path("mine.json"), destination=MINE)).is_local
    named = plan_of(config, Asked(chain=chain, spends=True, wallet=Path("x"), destination=MINE))
    assert named.chain == config.chains[0]


def test_a_solana_whose_nodes_are_elsewhere_is_not_local(tmp_path: Path) -> None:
    (tmp_path / "payd.toml").write_text(
        f'[[chains]]\nid = "{LOCAL_SOLANA}"\nrpc = ["http://127.0.0.1:8899", "https://solana.example"]\n'
    )
    assert "is not a local test chain" in refusal(load(tmp_path / "payd.toml"), Asked())


def test_on_solana_nothing_is_sent_by_the_wallet(tmp_path: Path) -> None:
    assert "Leave --send out" in refusal(configured(tmp_path, LOCAL_SOLANA), Asked(send=True))
