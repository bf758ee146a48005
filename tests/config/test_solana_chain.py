"""A Solana chain's configuration is whole, and has no key that only an EVM chain understands."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from payd.chains.defaults import DepthPolicy, described_chains, solana_defaults_of
from payd.config import SolanaChainConfig, chain_config
from payd.config.solana_chain import BY_SOLANA_CHAIN, SOLANA_ROW
from tests.config.conftest import Loaded, Problems

KEYED = "https://sol.example/v2/hunter2?key=hunter2"
RPC = f'rpc = ["{KEYED}"]\n'
MAINNET = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
LOCAL = "solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P"
TABLE = f'[[chains]]\nid = "{MAINNET}"\n{RPC}'
CHAINS = [*(chain for chain in described_chains() if chain.startswith("solana:")), LOCAL]
WALLET = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"


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
    shipped = solana_defaults_of(chain)
    assert found == chain_config({"id": chain, "rpc": (KEYED,)})
    assert {name: getattr(found, name) for name in BY_SOLANA_CHAIN} == {
        name: getattr(shipped, name) for name in BY_SOLANA_CHAIN
    }
    assert (found.ws, found.fee_address) == ("", "")
    assert found.shipped == shipped


@pytest.mark.parametrize("chain", CHAINS)
def test_every_default_of_a_chain_could_be_configured(chain: str) -> None:
    for name in BY_SOLANA_CHAIN:
        default = getattr(solana_defaults_of(chain), name)
        assert SOLANA_ROW.keys[name].kind.parse(as_written(default)) == default


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("mainnet", MAINNET),
        ("devnet", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"),
        ("testnet", "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z"),
    ],
)
def test_the_public_clusters_go_by_their_names(loaded: Loaded, name: str, id: str) -> None:
    [found] = loaded(f'[[chains]]\nid = "solana:{name}"\n{RPC}').chains
    assert found.id == id


def test_a_cluster_does_not_stand_twice_under_two_names(problems: Problems) -> None:
    [problem] = problems(TABLE + TABLE.replace(MAINNET, "solana:mainnet"))
    assert problem == "payd.toml:5: chains[1].id is that of chains[0] too"


def test_what_is_configured_stands_over_what_ships(loaded: Loaded) -> None:
    [found] = loaded(
        f"""
        [[chains]]
        id = "{LOCAL}"
        rpc = ["https://a.example", "http://127.0.0.1:8899/"]
        ws = "wss://a.example/hunter2"
        sponsor = false
        depth = {{ "0" = "confirmed", "500" = "finalized" }}
        unit_price_max = 1
        gas_per_day = "0.000000001"
        relays_per_buyer = 1
        poll_ms = 50
        fee_address = "{WALLET}"
        """
    ).chains
    assert found == SolanaChainConfig(
        id=LOCAL,
        rpc=("https://a.example", "http://127.0.0.1:8899/"),
        ws="wss://a.example/hunter2",
        sponsor=False,
        depth=DepthPolicy.of({"0": "confirmed", "500": "finalized"}),
        unit_price_max=1,
        gas_per_day=Decimal("0.000000001"),
        relays_per_buyer=1,
        poll_ms=50,
        fee_address=WALLET,
    )
    assert found.gas_per_day_lamports == 1


def test_the_largest_amounts_are_exact(loaded: Loaded) -> None:
    [found] = loaded(f'{TABLE}gas_per_day = "999999.999999999"\n').chains
    assert isinstance(found, SolanaChainConfig)
    assert found.gas_per_day_lamports == 999_999_999_999_999


WRONG = [
    ("id", '"solana:mainnet-beta"'),
    ("id", '"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvd"'),
    ("id", '"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpGGqd5KXjDwv"'),
    ("id", '"solana:0OIl4UsFv8P8NJdTREpY1vzqKqZKvdp0"'),
    ("rpc", "[]"),
    ("ws", '"https://a.example"'),
    ("depth", "3"),
    ("depth", '"safe"'),
    ("depth", '"processed"'),
    ("depth", '{ "0" = "finalized", "1000" = "confirmed" }'),
    ("depth", '{ "0" = 1, "1000" = "confirmed" }'),
    ("unit_price_max", "0"),
    ("unit_price_max", "100000001"),
    ("unit_price_max", '"1"'),
    ("gas_per_day", '"0"'),
    ("gas_per_day", '"0.0000000001"'),
    ("relays_per_buyer", "0"),
    ("poll_ms", "49"),
    ("fee_address", '"11111111111111111111111111111111"'),
    ("fee_address", '"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"'),
    ("fee_address", f'"{WALLET[:-3]}"'),
    ("fee_address", f'"{WALLET.lower()}"'),
    ("fee_address", "5"),
]


@pytest.mark.parametrize(("key", "value"), WRONG)
def test_what_cannot_be_is_refused_with_what_can(problems: Problems, key: str, value: str) -> None:
    given = {"id": f'"{MAINNET}"', "rpc": '["https://a.example"]'} | {key: value}
    lines = [f"{name} = {text}\n" for name, text in given.items()]
    [problem] = problems("[[chains]]\n" + "".join(lines))
    line = 2 + list(given).index(key)
    assert problem.startswith(f"payd.toml:{line}: chains[0].{key} must be {SOLANA_ROW.keys[key].kind.words}")


@pytest.mark.parametrize(("key", "value"), [("max_fee_gwei", '"5"'), ("final", '"finalized"')])
def test_a_key_of_evm_chains_is_refused_with_the_keys_there_are(
    problems: Problems, key: str, value: str
) -> None:
    [problem] = problems(f"{TABLE}{key} = {value}\n")
    assert problem.startswith(f"payd.toml:4: chains[0].{key} is not for a table with this id; such a one has")
    assert "unit_price_max" in problem


def test_a_key_in_a_nodes_url_is_in_no_repr(loaded: Loaded) -> None:
    config = loaded(f'{TABLE}ws = "wss://sol.example/hunter2"\n')
    assert config.chains[0].rpc == (KEYED,)
    assert "hunter2" not in repr(config)
