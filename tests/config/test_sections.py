"""The table of keys: payd.toml shows every key of it, and what a section says beyond its keys."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from payd.chains.assets import find_asset
from payd.config import KEYS, ROWS, VARIABLES, Address, Config, chain_config, load
from payd.config.keys import Key
from payd.config.sections import Fee
from payd.core.caip import parse_asset
from tests.config.conftest import Loaded, Problems

SHIPPED = Path(__file__).parents[2] / "payd.toml"


def uncommented(text: str) -> str:
    """The shipped file with each of its keys set."""
    return re.sub(r"^# (?=[a-z_]+ = )", "", text, flags=re.M)


def tables_shown(name: str) -> list[str]:
    """The tables of an array that the shipped file shows, commented out: one of each kind."""
    found = re.findall(rf"^# \[\[{name}\]\]\n(?:#.*\n)+", SHIPPED.read_text(), re.M)
    assert len(found) == len(ROWS[name].kinds)
    return found


def set_table(shown: str) -> str:
    """Such a table with each of its keys set."""
    return re.sub(r"^# +", "", re.sub(r"^#   (?![a-z_0-9]+ = ).*\n", "", shown, flags=re.M), flags=re.M)


def values_in(tree: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Values by dotted name; a table that is a value stays one."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict) and above + name not in KEYS:
            found |= values_in(value, f"{above}{name}.")
        else:
            found[above + name] = value
    return found


def all_keys() -> list[tuple[str, Key]]:
    """Those of sections and of the tables of arrays."""
    of_tables = [
        (f"{name}.{key}", each)
        for name, rows in ROWS.items()
        for row in rows.kinds.values()
        for key, each in row.keys.items()
    ]
    return [*KEYS.items(), *of_tables]


def says_the_unit(comment: str, key: Key) -> bool:
    return not key.unit or key.unit.split()[0] in comment


def test_the_shipped_file_loads_to_exactly_the_defaults(file: Path) -> None:
    file.write_text(SHIPPED.read_text())
    assert load(file) == Config(data_dir=file.parent / "data", file=file)


def test_the_defaults_that_the_shipped_file_shows_are_the_defaults(file: Path) -> None:
    file.write_text(uncommented(SHIPPED.read_text()))
    assert load(file) == Config(data_dir=file.parent / "data", file=file)


def test_the_shipped_file_shows_each_key_once_with_what_is_allowed() -> None:
    text = SHIPPED.read_text()
    shown = values_in(tomllib.loads(uncommented(text)))
    assert set(shown) == set(KEYS)
    for name, key in KEYS.items():
        section, _, last = name.rpartition(".")
        within = text[text.index(f"\n[{section}]\n") :] if section else text
        written = re.search(rf"((?:^# .*\n)+)# {last} = ", within, re.M)
        assert written is not None, f"{name} has no comment above it"
        assert says_the_unit(written[1], key), f"{name}: the comment does not say {key.unit}"


@pytest.mark.parametrize("name", ROWS)
def test_the_shipped_file_shows_each_key_of_a_table_once_with_what_is_allowed(name: str) -> None:
    for text, kind in zip(tables_shown(name), ROWS[name].kinds.values(), strict=True):
        [shown] = tomllib.loads(set_table(text))[name]
        assert ROWS[name].kind_of(shown[ROWS[name].by]) is kind
        assert shown.keys() == kind.keys.keys()
        for each, key in kind.keys.items():
            written = re.search(rf"((?:^#   .*\n)+)#   {each} = ", text, re.M)
            assert written is not None, f"{each} has no comment above it"
            assert says_the_unit(written[1], key), f"{each}: the comment does not say {key.unit}"


def test_the_tables_that_the_shipped_file_shows_have_the_defaults_of_their_kind(loaded: Loaded) -> None:
    shown = loaded("".join(map(set_table, [*tables_shown("chains"), *tables_shown("assets")])))
    assert [chain.id.partition(":")[0] for chain in shown.chains] == ["eip155", "solana"]
    for chain in shown.chains:
        assert chain == chain_config({"id": chain.id, "rpc": chain.rpc})
    assert len(shown.assets) == 2
    for asset in shown.assets:
        assert asset == find_asset(parse_asset(asset.asset))


def test_every_key_has_a_meaning_and_says_what_is_allowed() -> None:
    mute = [name for name, key in all_keys() if not key.meaning.endswith(".") or not key.kind.words]
    assert mute == []


def test_every_number_has_a_unit() -> None:
    bare = [name for name, key in all_keys() if type(key.default) in (int, Decimal) and not key.unit]
    assert bare == []


VALUES = {
    "data_dir": ("elsewhere", Path("elsewhere")),
    "listen": ("0.0.0.0:80", Address("0.0.0.0", 80)),
    "base_url": ("https://pay.example", "https://pay.example"),
    "log.format": ("json", "json"),
    "log.level": ("debug", "debug"),
    "http.trusted_proxies": (
        "10.0.0.0/8, ::1",
        (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("::1/128")),
    ),
    "webhooks.test.allow_networks": ("127.0.0.0/8", (ipaddress.ip_network("127.0.0.0/8"),)),
    "webhooks.live.allow_networks": ("10.1.2.3", (ipaddress.ip_network("10.1.2.3/32"),)),
    "webhooks.test.ca_file": ("ca.pem", Path("ca.pem")),
    "webhooks.live.ca_file": ("ca.pem", Path("ca.pem")),
    "webhooks.test.allow_http": ("true", True),
    "webhooks.bind": ("203.0.113.7, 2001:db8::7", ("203.0.113.7", "2001:db8::7")),
    "webhooks.proxy": ("http://proxy.example:3128", "http://proxy.example:3128"),
    "webhooks.canary": ("false", False),
    "notify.url": ("https://ntfy.example/payd?a=b", "https://ntfy.example/payd?a=b"),
    "rates.source": ("table", "table"),
    "rates.table": ("USDC/USD = 1, ETH/EUR=2500.5", (("USDC/USD", "1"), ("ETH/EUR", "2500.5"))),
    "relayer.keystore": ("relayer.json", Path("relayer.json")),
    "relayer.password_file": ("password", Path("password")),
    "fee.percent": ("2.9", Decimal("2.9")),
    "fee.base_usd": ("0.30", Decimal("0.3")),
    "fee.mandatory": ("true", True),
    "metrics.token": ("0123456789abcdef", "0123456789abcdef"),
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_each_variable_reaches_its_key(variable: str, file: Path) -> None:
    key = VARIABLES[variable]
    text, expected = VALUES.get(key, ("2048", 2048))
    others = {"PAYD_RATES_TABLE": "USDC/USD=1"} if key == "rates.source" else {}
    value: object = load(None, {**others, variable: text})
    for part in key.split("."):
        value = getattr(value, part)
    assert value == expected
    assert value != KEYS[key].default, "the test shows nothing with the default"


@pytest.mark.parametrize(
    ("listen", "port", "url"),
    [
        ("127.0.0.1:8420", None, "http://127.0.0.1:8420"),
        ("0.0.0.0:8420", None, "http://127.0.0.1:8420"),
        ("[::]:8420", None, "http://[::1]:8420"),
        ("shop.example:80", None, "http://shop.example:80"),
        ("127.0.0.1:0", 54321, "http://127.0.0.1:54321"),
    ],
)
def test_links_begin_with_what_can_be_opened(listen: str, port: int | None, url: str, file: Path) -> None:
    assert load(None, {"PAYD_LISTEN": listen}).public_url(port) == url


def test_a_base_url_wins_over_what_is_listened_on(file: Path) -> None:
    loaded = load(None, {"PAYD_BASE_URL": "https://pay.example/x/", "PAYD_LISTEN": "0.0.0.0:1"})
    assert loaded.public_url(9) == "https://pay.example/x"


def test_rates_of_a_table_are_kept_as_they_are_written(loaded: Loaded) -> None:
    text = '[rates]\nsource = "table"\ntable = { "USDC/USD" = "1.00", "ETH/EUR" = 2500 }\n'
    assert dict(loaded(text).rates.table) == {"USDC/USD": "1.00", "ETH/EUR": "2500"}
    assert loaded('[rates.table]\n"USDC/USD" = "1"\n').rates.table == (("USDC/USD", "1"),)


@pytest.mark.parametrize(
    "pair",
    [
        '"USDC" = "1"',
        '"USDC/usd" = "1"',
        '"USDC/XXQ" = "1"',
        '"USDC/USD/EUR" = "1"',
        '"/USD" = "1"',
        '"USDC/USD" = "0"',
        '"USDC/USD" = "-1"',
        '"USDC/USD" = 1.5',
        '"USDC/USD" = "1e3"',
        '"USDC/USD" = "nan"',
        '"USDC/USD" = ""',
        '"USDC/USD" = "1,5"',
        '"USDC/USD" = true',
    ],
)
def test_a_rate_that_is_none_is_refused(problems: Problems, pair: str) -> None:
    [problem] = problems(f"[rates]\ntable = {{ {pair} }}\n")
    assert problem.startswith("payd.toml:2: rates.table must be a table of SYMBOL/CURRENCY and a decimal")


def test_a_rate_in_a_variable_that_is_no_pair_is_refused(problems: Problems) -> None:
    [problem] = problems("", PAYD_RATES_TABLE="USDC/USD")
    assert problem.startswith("PAYD_RATES_TABLE: must be a table of SYMBOL/CURRENCY")


@pytest.mark.parametrize(
    ("percent", "share"), [("0", 0), ("2.9", Fraction(29, 1000)), ("100", 1), ("0.0001", Fraction(1, 10**6))]
)
def test_a_fees_share_is_exact(loaded: Loaded, percent: str, share: Fraction) -> None:
    fee = loaded(f'[fee]\npercent = "{percent}"\n').fee
    assert fee.share == share
    assert fee.is_on == (share > 0)


def test_a_fee_of_a_fixed_part_alone_is_a_fee() -> None:
    assert Fee(base_usd=Decimal("0.3")).is_on
    assert not Fee().is_on


@pytest.mark.parametrize("percent", ['"100.1"', '"-1"', '"2.90001"', "2.9", '"2,9"', '"2.9%"', "true", '""'])
def test_a_fee_that_no_payment_could_bear_is_refused(problems: Problems, percent: str) -> None:
    [problem] = problems(f"[fee]\npercent = {percent}\n")
    assert problem.startswith(
        'payd.toml:2: fee.percent must be a decimal in quotes, such as "0.5", 0 or more'
    )
