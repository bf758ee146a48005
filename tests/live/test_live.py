"""What the live realm is built from, and that a test realm brings none of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from payd.actors.live_chain import LiveChain
from payd.chains.evm.chain import EvmChain
from payd.chains.keystore import Addresses
from payd.chains.solana.chain import SolanaChain
from payd.config import Config, ConfigError, load
from payd.live import open_to_look
from payd.server import open_house
from payd.web.house import House
from tests.live.chain import RELAYER, address
from tests.live.street import PASSWORD, configuration, write_keystore

NOBODY = "http://127.0.0.1:9"
SOLANA_CHAIN = f'[[chains]]\nid = "solana:TQeXUnUQS3Kz8DEDrAZtE81ovTnN5a3P"\nrpc = ["{NOBODY}"]\n'
SOLANA = f'{SOLANA_CHAIN}[relayer]\nkeystore = "relayer.json"\npassword_file = "password"\n'

# Whatever brings one of these costs a test realm half a second and 40 MiB.
HEAVY = (
    "eth_account",
    "eth_abi",
    "eth_keyfile",
    "eth_utils",
    "coincurve",
    "solders",
    "payd.chains.evm.chain",
    "payd.chains.solana.chain",
    "payd.live",
)


def configured(folder: Path, text: str) -> Config:
    write_keystore(folder)
    (folder / "payd.toml").write_text(text)
    return load(folder / "payd.toml", {"PAYD_DATA_DIR": str(folder / "data")})


def test_a_server_without_chains_brings_nothing_that_signs(tmp_path: Path) -> None:
    script = (
        "import sys, trio\n"
        "from payd.config import load\n"
        "from payd.server import open_house\n"
        "async def main():\n"
        "    async with open_house(load(None, {'PAYD_DATA_DIR': sys.argv[1]})) as house:\n"
        "        assert list(house.realms) == ['test']\n"
        "trio.run(main)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.strip() == "[]"


def test_a_bomb_of_brackets_is_refused_by_a_live_server_too(tmp_path: Path) -> None:
    """What signs lifts the limit on nesting; without it the process ends with a segmentation fault."""
    configured(tmp_path, configuration([NOBODY]))
    script = (
        "import sys, trio\n"
        "from pathlib import Path\n"
        "from payd.config import load\n"
        "from payd.core.errors import InvalidParams\n"
        "from payd.server import open_house\n"
        "from payd.web.call import Request, decode_json\n"
        "async def main():\n"
        "    folder = Path(sys.argv[1])\n"
        "    config = load(folder / 'payd.toml', {'PAYD_DATA_DIR': str(folder / 'data')})\n"
        "    async with open_house(config) as house:\n"
        "        assert house.realms['live'].live_chains[0].relayer is not None\n"
        "        try:\n"
        "            decode_json(Request('POST', '/', body=b'[' * 60_000), list)\n"
        "        except InvalidParams:\n"
        "            print('refused')\n"
        "trio.run(main)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout.strip()) == (0, "refused"), done.stderr


@pytest.mark.real_time
async def test_a_configured_chain_opens_the_live_realm_without_asking_a_node(tmp_path: Path) -> None:
    config = configured(tmp_path, configuration([NOBODY]))
    async with open_house(config) as house:
        [chain] = live_realm(house)
        assert chain.name == "eip155:31337"
        assert isinstance(chain.chain, EvmChain)
        assert chain.chain.terms.relayer == address(RELAYER).lower()
        assert chain.relayer is not None
        assert chain.rpc.posts == 0


@pytest.mark.real_time
async def test_without_a_key_buyers_pay_gas_themselves(tmp_path: Path) -> None:
    text = configuration([NOBODY]).replace('keystore = "relayer.json"', 'keystore = ""')
    async with open_house(configured(tmp_path, text)) as house:
        [chain] = live_realm(house)
        assert chain.relayer is None
        assert isinstance(chain.chain, EvmChain)
        assert chain.chain.terms.relayer is None


@pytest.mark.real_time
async def test_a_command_on_a_stopped_server_unlocks_no_key(tmp_path: Path) -> None:
    config = configured(tmp_path, configuration([NOBODY]))
    (tmp_path / "password").write_text("wrong")
    async with open_house(config, inline=True) as house:
        [chain] = live_realm(house)
        assert chain.relayer is None


@pytest.mark.real_time
@pytest.mark.parametrize("password", ["wrong", None])
async def test_a_key_that_nothing_opens_is_a_mistake_of_the_configuration(
    tmp_path: Path, password: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = configuration([NOBODY])
    config = configured(tmp_path, text if password else text.replace('"password"', '""'))
    (tmp_path / "password").write_text(password or PASSWORD)
    mistake = pytest.RaisesExc(ConfigError, match=r"\[relayer\] .*relayer.json")
    with pytest.RaisesGroup(mistake, flatten_subgroups=True):
        async with open_house(config):
            pass
    if password is None:
        monkeypatch.setenv("PAYD_RELAYER_PASSWORD", PASSWORD)
        async with open_house(config) as house:
            assert live_realm(house)[0].relayer is not None
    await trio.lowlevel.checkpoint()


@pytest.mark.real_time
async def test_a_key_whose_file_says_another_address_on_solana_is_a_mistake_too(tmp_path: Path) -> None:
    config = configured(tmp_path, SOLANA)
    content = json.loads((tmp_path / "relayer.json").read_text())
    (tmp_path / "relayer.json").write_text(json.dumps({**content, "solana_address": "1" * 32}))
    with pytest.raises(ExceptionGroup) as caught:
        async with open_house(config):
            pass
    assert caught.group_contains(ConfigError, match=r"\[relayer\] .*holds another key than it says")


@pytest.mark.real_time
async def test_chains_of_both_kinds_are_opened_beside_each_other(tmp_path: Path) -> None:
    async with open_house(configured(tmp_path, configuration([NOBODY]) + SOLANA_CHAIN)) as house:
        assert [type(one.chain) for one in live_realm(house)] == [EvmChain, SolanaChain]
        assert [one.rpc.posts for one in live_realm(house)] == [0, 0]


@pytest.mark.real_time
async def test_only_where_the_operator_pays_gas_his_key_is_used(tmp_path: Path) -> None:
    unpaid = f'sponsor = false\n[[chains]]\nid = "eip155:31338"\nrpc = ["{NOBODY}"]\nsponsor = false\n'
    config = configured(tmp_path, configuration([NOBODY]) + SOLANA_CHAIN + unpaid)
    async with open_house(config) as house:
        paid, solana, other = live_realm(house)
        assert (paid.relayer is None, other.relayer is None) == (False, True)
        assert payers(paid.chain, solana.chain, other.chain) == (address(RELAYER).lower(), None, None)
    async with open_to_look(config, Addresses(address(RELAYER), "1" * 32)) as (chains, _):
        assert payers(*chains) == (address(RELAYER).lower(), None, None)


def payers(*chains: object) -> tuple[object, ...]:
    """Whose key pays for others on each."""
    return tuple(
        one.terms.relayer if isinstance(one, EvmChain) else one.terms.fee_payer
        for one in chains
        if isinstance(one, EvmChain | SolanaChain)
    )


@pytest.mark.real_time
async def test_where_he_pays_none_it_is_not_unlocked(tmp_path: Path) -> None:
    config = configured(tmp_path, configuration([NOBODY], lines="sponsor = false"))
    (tmp_path / "password").write_text("wrong")
    async with open_house(config) as house:
        assert live_realm(house)[0].relayer is None


@pytest.mark.parametrize(
    ("solana", "needless"),
    [
        (False, ("solders", "payd.chains.solana", "payd.live.solana")),
        (True, ("eth_account", "eth_abi", "payd.chains.evm.chain", "payd.live.evm", "payd.actors.relayer")),
    ],
    ids=["evm", "solana"],
)
def test_a_server_brings_only_what_its_kind_of_chain_needs(
    tmp_path: Path, solana: bool, needless: tuple[str, ...]
) -> None:
    configured(tmp_path, SOLANA if solana else configuration([NOBODY]))
    script = (
        "import sys, trio\n"
        "from pathlib import Path\n"
        "from payd.config import load\n"
        "from payd.server import open_house\n"
        "async def main():\n"
        "    folder = Path(sys.argv[1])\n"
        "    config = load(folder / 'payd.toml', {'PAYD_DATA_DIR': str(folder / 'data')})\n"
        "    async with open_house(config) as house:\n"
        "        assert house.realms['live'].live_chains[0].relayer is not None\n"
        "trio.run(main)\n"
        f"print([name for name in {needless!r} if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def live_realm(house: House) -> tuple[LiveChain, ...]:
    return house.realms["live"].live_chains
