"""What the live realm is built from, and that a test realm brings none of it."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import trio

from payd.actors.live_chain import LiveChain
from payd.chains.evm.chain import EvmChain
from payd.chains.fee_terms import FeeTerms
from payd.config import Config, ConfigError, load
from payd.live import terms_of
from payd.server import open_house
from payd.web.house import House
from tests.live.chain import RELAYER, address
from tests.live.street import PASSWORD, configuration, write_keystore

NOBODY = "http://127.0.0.1:9"
OPERATOR = "0x15d34aaf54267db7d7c367839aaf71a00a2c6a65"

# Whatever brings one of these costs a test realm half a second and 40 MiB.
HEAVY = (
    "eth_account",
    "eth_abi",
    "eth_keyfile",
    "eth_utils",
    "coincurve",
    "payd.chains.evm.chain",
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


def test_terms_carry_what_the_operator_set(tmp_path: Path) -> None:
    fee = 'percent = "2.5"\nbase_usd = "0.3"\nmandatory = true\n'
    text = configuration([NOBODY], fee=fee, lines=f'depth = 4\nfinal = 9\nfee_address = "{OPERATOR}"')
    config = configured(tmp_path, text)

    terms = terms_of(config, config.chains[0], "0xABC")

    assert (terms.depth.depth_for(100), terms.final, terms.sponsor, terms.relayer) == (4, 9, True, "0xabc")
    assert terms.fee == FeeTerms(Fraction(25, 1000), Fraction(3, 10), OPERATOR, mandatory=True)


def test_a_fee_that_goes_nowhere_is_none(tmp_path: Path) -> None:
    config = configured(tmp_path, configuration([NOBODY], fee='percent = "2.5"\n'))

    assert terms_of(config, config.chains[0], None).fee is None


def live_realm(house: House) -> tuple[LiveChain, ...]:
    return house.realms["live"].live_chains
