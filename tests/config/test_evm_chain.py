"""An EVM chain's configuration is whole: what a table leaves out comes from what payd ships for the chain."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from payd.chains.defaults import DepthPolicy, described_chains, evm_defaults_of
from payd.config import EvmChainConfig, chain_config
from payd.config.evm_chain import BY_EVM_CHAIN, EVM_ROW
from tests.config.conftest import Loaded, Problems

KEYED = "https://eth.example/v2/hunter2?key=hunter2"
CHAINS = [*(chain for chain in described_chains() if chain.startswith("eip155:")), "eip155:31337"]
RPC = f'rpc = ["{KEYED}"]\n'
BASE = f'[[chains]]\nid = "eip155:8453"\n{RPC}'
# The checksummed example of EIP-55.
ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def as_written(value: Any) -> Any:
    match value:
        case DepthPolicy():
            return value.written()
        case Decimal():
            return str(value)
    return value


@pytest.mark.parametrize("chain", CHAINS)
def test_id_and_nodes_are_enough(loaded: Loaded, chain: str) -> None:
    [found] = loaded(f'[[chains]]\nid = "{chain}"\n{RPC}').chains
    shipped = evm_defaults_of(chain)
    assert found == chain_config({"id": chain, "rpc": (KEYED,)})
    assert {name: getattr(found, name) for name in BY_EVM_CHAIN} == {
        name: getattr(shipped, name) for name in BY_EVM_CHAIN
    }
    assert (found.ws, found.fee_address) == ("", "")
    assert found.shipped == shipped


@pytest.mark.parametrize("chain", CHAINS)
def test_every_default_of_a_chain_could_be_configured(chain: str) -> None:
    for name in BY_EVM_CHAIN:
        default = getattr(evm_defaults_of(chain), name)
        assert EVM_ROW.keys[name].kind.parse(as_written(default)) == default


def test_what_is_configured_stands_over_what_ships(loaded: Loaded) -> None:
    [found] = loaded(
        f"""
        [[chains]]
        id = "eip155:8453"
        rpc = ["https://a.example", "http://127.0.0.1:8545/"]
        ws = "wss://a.example/hunter2"
        sponsor = false
        depth = {{ "0" = 1, "500" = "finalized" }}
        final = 64
        max_fee_gwei = "0.000000001"
        gas_per_day = "0.000000000000000001"
        relays_per_buyer = 1
        poll_ms = 50
        fee_address = "{ADDRESS}"
        """
    ).chains
    assert found == EvmChainConfig(
        id="eip155:8453",
        rpc=("https://a.example", "http://127.0.0.1:8545/"),
        ws="wss://a.example/hunter2",
        sponsor=False,
        depth=DepthPolicy.of({"0": 1, "500": "finalized"}),
        final=64,
        max_fee_gwei=Decimal("0.000000001"),
        gas_per_day=Decimal("0.000000000000000001"),
        relays_per_buyer=1,
        poll_ms=50,
        fee_address=ADDRESS.lower(),
    )
    assert (found.number, found.max_fee_wei, found.gas_per_day_wei) == (8453, 1, 1)


def test_the_largest_amounts_are_exact(loaded: Loaded) -> None:
    text = f'{BASE}max_fee_gwei = "999999.999999999"\ngas_per_day = "999999.999999999999999999"\n'
    [found] = loaded(text).chains
    assert isinstance(found, EvmChainConfig)
    assert found.max_fee_wei == 999_999_999_999_999
    assert found.gas_per_day_wei == 999_999_999_999_999_999_999_999


WRONG = [
    ("id", '"eip155:08453"'),
    ("id", '"EIP155:8453"'),
    ("id", '"8453"'),
    ("id", "8453"),
    ("rpc", '"https://a.example"'),
    ("rpc", "[]"),
    ("rpc", '[""]'),
    ("rpc", '["wss://a.example"]'),
    ("rpc", '["https://me:hunter2@a.example"]'),
    ("rpc", '["https://a.example", "https://a.example"]'),
    ("rpc", '["https://a.example", "HTTPS://A.example:443/"]'),
    ("rpc", str([f"https://{n}.example" for n in range(9)])),
    ("ws", '"https://a.example"'),
    ("ws", '"ws://me:hunter2@a.example"'),
    ("ws", '"wss://"'),
    ("ws", "true"),
    ("sponsor", '"yes"'),
    ("depth", "0"),
    ("depth", "1001"),
    ("depth", "true"),
    ("depth", '"latest"'),
    ("depth", '"confirmed"'),
    ("depth", '{ "0" = 3, "1000" = "confirmed" }'),
    ("depth", '"3"'),
    ("depth", "{}"),
    ("depth", "[3]"),
    ("depth", '{ "1000" = 3 }'),
    ("final", '"safe"'),
    ("final", "0"),
    ("final", "true"),
    ("max_fee_gwei", '"0"'),
    ("max_fee_gwei", "0.5"),
    ("max_fee_gwei", '"0.0000000001"'),
    ("gas_per_day", '"-1"'),
    ("gas_per_day", '"0"'),
    ("relays_per_buyer", "0"),
    ("poll_ms", "49"),
    ("poll_ms", "60001"),
    ("fee_address", f'"{ADDRESS.replace("aAeb", "aaeb")}"'),
    ("fee_address", '"0x0000000000000000000000000000000000000000"'),
    ("fee_address", '"0x0000000000000000000000000000000000000009"'),
    ("fee_address", '"0x1234"'),
    ("fee_address", f'"eip155:8453:{ADDRESS}"'),
    ("fee_address", "5"),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_what_cannot_be_is_refused_with_what_can(problems: Problems, key: str, value: str) -> None:
    given = {"id": '"eip155:1"', "rpc": '["https://a.example"]'} | {key: value}
    lines = [f"{name} = {text}\n" for name, text in given.items()]
    [problem] = problems("[[chains]]\n" + "".join(lines))
    line = 2 + list(given).index(key)
    assert problem.startswith(f"payd.toml:{line}: chains[0].{key} must be {EVM_ROW.keys[key].kind.words}")
    assert "hunter2" not in problem


def test_a_key_of_solana_is_refused_with_the_keys_there_are(problems: Problems) -> None:
    [problem] = problems(f"{BASE}unit_price_max = 5\n")
    assert problem.startswith("payd.toml:4: chains[0].unit_price_max is not for a table with this id; such a")
    assert "max_fee_gwei" in problem
