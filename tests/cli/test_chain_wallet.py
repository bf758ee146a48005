"""The live demo's wallet is of the kind of its chain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from solders.keypair import Keypair

from payd.chains.keystore import create
from payd.chains.rpc import Rpc
from payd.cli.chain_wallet import open_wallet
from payd.cli.demo_plan import Asked, Plan, plan_of
from payd.cli.evm_wallet import EvmWallet
from payd.cli.failure import Refused
from payd.cli.solana_wallet import SolanaWallet
from payd.config import load
from payd.live import dialect_of

EVM = "eip155:31337"
SOLANA = "solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P"


def planned(folder: Path, chain: str) -> tuple[Plan, Rpc]:
    (folder / "payd.toml").write_text(f'[[chains]]\nid = "{chain}"\nrpc = ["http://127.0.0.1:9"]\n')
    plan = plan_of(load(folder / "payd.toml"), Asked())
    return plan, Rpc(plan.chain.rpc, dialect_of(plan.chain))


def test_on_an_evm_chain_it_is_a_keystore_that_its_password_opens(tmp_path: Path) -> None:
    made = create(tmp_path / "buyer.json", "secret", small=True)
    (tmp_path / "buyer.password").write_text("secret\n")
    opened = open_wallet(*planned(tmp_path, EVM))
    assert isinstance(opened, EvmWallet)
    assert opened.address.lower() == made.evm
    assert list(opened.accounts) == [f"{EVM}:{opened.address}"]


def test_on_solana_it_is_a_keypair_file(tmp_path: Path) -> None:
    keys = Keypair.from_seed(bytes([7]) * 32)
    (tmp_path / "buyer-solana.json").write_text(json.dumps(list(bytes(keys))))
    opened = open_wallet(*planned(tmp_path, SOLANA))
    assert isinstance(opened, SolanaWallet)
    assert list(opened.accounts) == [f"{SOLANA}:{keys.pubkey()}"]


@pytest.mark.parametrize("chain", [EVM, SOLANA])
def test_without_a_wallet_nothing_is_opened(tmp_path: Path, chain: str) -> None:
    with pytest.raises(Refused, match="There is no wallet"):
        open_wallet(*planned(tmp_path, chain))
