"""What people may see of a configuration: values as they are written, and no secret's own text."""

from __future__ import annotations

import tomllib

from payd.config import KEYS, load
from payd.config.shown import for_people, settings_for_pages, shown_value, value_of

TOKEN = "0123456789abcdef-token"


def test_a_secret_is_shown_as_set_and_nothing_else() -> None:
    config = load(None, {"PAYD_METRICS_TOKEN": TOKEN})
    shown = {name: shown_value(key, value_of(config, name)) for name, key in KEYS.items()}
    assert shown["metrics.token"] == "(set)"
    assert TOKEN not in str(shown)


def test_values_stand_there_as_in_the_file() -> None:
    config = load(None, {"PAYD_LISTEN": "127.0.0.1:9", "PAYD_HTTP_TRUSTED_PROXIES": "127.0.0.1,::1"})
    assert shown_value(KEYS["listen"], value_of(config, "listen")) == "127.0.0.1:9"
    proxies = shown_value(KEYS["http.trusted_proxies"], value_of(config, "http.trusted_proxies"))
    assert for_people(proxies) == "127.0.0.1/32 ::1/128"
    assert for_people({"USDC/USD": "1"}) == "{ USDC/USD = 1 }"


def test_a_switch_can_be_copied_into_the_file_as_it_is_shown() -> None:
    switches = {name: key.default for name, key in KEYS.items() if type(key.default) is bool}
    assert set(switches.values()) == {True, False}
    for name, value in switches.items():
        line = f"it = {for_people(shown_value(KEYS[name], value))}"
        assert tomllib.loads(line) == {"it": value}, name


def test_pages_get_what_a_shop_meets_and_nothing_of_the_machine() -> None:
    settings = settings_for_pages(load(None, {"PAYD_PAYMENTS_LIFETIME_S": "60"}))
    by_name = {name: (value, changed) for name, value, _, _, changed in settings}
    assert by_name["payments.lifetime_s"] == ("60", True)
    assert by_name["payments.collected_days"] == ("90", False)
    assert not {"data_dir", "listen", "metrics.token", "relayer.password_file"} & set(by_name)
