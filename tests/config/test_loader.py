"""A configuration is defaults, a file, and variables on top; a mistake names its line and what is allowed."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from pathlib import Path

import pytest

from payd import config
from payd.config import KEYS, VARIABLES, Address, Config, ConfigError, load

LIFETIME = "payd.toml:2: payments.lifetime_s must be a whole number of seconds"
SHIPPED = Path(__file__).parents[1] / "payd.toml"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "payd.toml"


def problems(file: Path, text: str, env: dict[str, str] | None = None) -> list[str]:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, env)
    return [problem.replace(str(file), "payd.toml") for problem in caught.value.problems]


def uncommented(text: str) -> str:
    """The shipped file with each of its keys set."""
    return re.sub(r"^# (?=[a-z_]+ = )", "", text, flags=re.M)


def test_the_shipped_file_loads_to_exactly_the_defaults(file: Path) -> None:
    file.write_text(SHIPPED.read_text())
    assert load(file) == Config(data_dir=file.parent / "data", file=file)


def test_the_defaults_that_the_shipped_file_shows_are_the_defaults(file: Path) -> None:
    file.write_text(uncommented(SHIPPED.read_text()))
    assert load(file) == Config(data_dir=file.parent / "data", file=file)


def test_the_shipped_file_shows_each_key_once_with_what_is_allowed() -> None:
    text = SHIPPED.read_text()
    shown = dict(config._flatten(tomllib.loads(uncommented(text))))
    assert set(shown) == set(KEYS)
    for name, key in KEYS.items():
        section, _, last = name.rpartition(".")
        within = text[text.index(f"[{section}]") :] if section else text
        written = re.search(rf"((?:^# .*\n)+)# {last} = ", within, re.M)
        assert written is not None, f"{name} has no comment above it"
        if key.unit:
            assert key.unit.split()[0] in written[1], f"{name}: the comment does not say {key.unit}"


def test_every_key_has_a_meaning_and_says_what_is_allowed() -> None:
    assert [name for name, key in KEYS.items() if not key.meaning.endswith(".") or not key.kind.words] == []


def test_every_number_has_a_unit() -> None:
    assert [name for name, key in KEYS.items() if type(key.default) is int and not key.unit] == []


def test_a_key_in_the_file_reaches_its_place(file: Path) -> None:
    file.write_text(
        'listen = "[::1]:9000"\nbase_url = "https://pay.example/"\n[payments]\nlifetime_s = 60\n'
        '[webhooks.test]\nallow_http = true\nallow_networks = ["127.0.0.0/8", "::1"]\nca_file = "ca.pem"\n'
    )
    loaded = load(file)
    assert loaded.listen == Address("::1", 9000)
    assert loaded.public_url() == "https://pay.example"
    assert loaded.payments.lifetime_s == 60
    assert loaded.webhooks.test.allow_http
    assert loaded.webhooks.test.allow_networks == (
        ipaddress.ip_network("127.0.0.0/8"),
        ipaddress.ip_network("::1/128"),
    )
    assert loaded.webhooks.test.ca_file == file.parent / "ca.pem"
    assert loaded.webhooks.live == Config().webhooks.live


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
    "metrics.token": ("0123456789abcdef", "0123456789abcdef"),
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_each_variable_reaches_its_key(variable: str, file: Path) -> None:
    key = VARIABLES[variable]
    text, expected = VALUES.get(key, ("2048", 2048))
    value: object = load(None, {variable: text})
    for part in key.split("."):
        value = getattr(value, part)
    assert value == expected
    assert value != KEYS[key].default, "the test shows nothing with the default"


def test_a_variable_wins_over_the_file(file: Path) -> None:
    file.write_text('listen = "127.0.0.1:1"\n[payments]\nlifetime_s = 60\n')
    loaded = load(file, {"PAYD_LISTEN": "127.0.0.1:2", "PAYD_DATA_DIR": "here"})
    assert (loaded.listen.port, loaded.payments.lifetime_s, loaded.data_dir) == (2, 60, Path("here"))


def test_an_empty_variable_sets_nothing(file: Path) -> None:
    assert load(None, {"PAYD_LISTEN": "", "PAYD_CONFIG": ""}) == Config()


def test_a_wrong_variable_is_named_with_what_is_allowed(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(
            None,
            {"PAYD_PAYMENTS_LIFETIME_S": "15m", "PAYD_LISTEN": "8420", "PAYD_WEBHOOKS_TEST_ALLOW_HTTP": "1"},
        )
    assert sorted(caught.value.problems) == [
        'PAYD_LISTEN: must be "host:port", such as "127.0.0.1:8420" or "[::1]:8420", not \'8420\'',
        "PAYD_PAYMENTS_LIFETIME_S: must be a whole number of seconds, 1 to 86400, not '15m'",
        "PAYD_WEBHOOKS_TEST_ALLOW_HTTP: must be true or false, not '1'",
    ]


def test_variables_that_set_nothing_are_no_error_and_can_be_asked_for() -> None:
    env = {"PAYD_LISTN": "x", "PAYD_LISTEN": "127.0.0.1:1", "PAYD_CONFIG": "x", "HOME": "/", "PAYD_PORT": "1"}
    assert config.unknown_variables({**env, "PAYD_WEBHOOK_SECRET": "x"}) == {
        "PAYD_LISTN": "PAYD_LISTEN",
        "PAYD_PORT": None,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('# comment\n\nlistn = "x"\n', "payd.toml:3: unknown key listn; did you mean listen"),
        ("[payments]\n\nlifetime_ms = 5\n", "payd.toml:3: unknown key payments.lifetime_ms; did you mean "
         "payments.lifetime_s (a whole number of seconds, 1 to 86400)?"),
        ("[api]\nbody_max = 2048\n[paymints]\nlifetime_s = 5\n", "payd.toml:3: unknown key paymints; did "
         "you mean payments?"),
        ("[[chains]]\nid = 'eip155:1'\n", "payd.toml:1: unknown key chains"),
        ("\nzzzzzz = 1\n", "payd.toml:2: unknown key zzzzzz; see payd.toml for the keys there are"),
        ("payments = 5\n", "payd.toml:1: payments must be a section: [payments]"),
        ("webhooks.test.allow_htp = true\n", "payd.toml:1: unknown key webhooks.test.allow_htp; did you mean "
         "webhooks.test.allow_http (true or false)?"),
    ],
)  # fmt: skip
def test_an_unknown_key_names_its_line_and_the_nearest_key(file: Path, text: str, expected: str) -> None:
    [problem] = problems(file, text)
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[payments]\nlifetime_s = '15m'\n", LIFETIME + ", 1 to 86400, not '15m'"),
        ("[payments]\nlifetime_s = 86401\n", LIFETIME),
        ("[notify]\nurl = 'https://a.test:99999/'\n", "payd.toml:2: notify.url must be an http or https URL"),
        ("[notify]\nurl = 'https://a..test/'\n", "payd.toml:2: notify.url must be an http or https URL"),
        ("[payments]\nlifetime_s = 900.0\n", LIFETIME),
        ("[payments]\nlifetime_s = true\n", LIFETIME),
        ("payments = {lifetime_s = 0}\n", "payd.toml:1: payments.lifetime_s must be"),
        ("\nlisten = 8420\n", 'payd.toml:2: listen must be "host:port"'),
        ("listen = 'a:99999'\n", 'payd.toml:1: listen must be "host:port"'),
        ("listen = '[::1:9]:1'\nbase_url = 'ftp://x'\n", "payd.toml:2: base_url must be an http"),
        ("base_url = 'https://x/?a=b'\n", "payd.toml:1: base_url must be"),
        ("base_url = 'https://me:pw@x'\n", "payd.toml:1: base_url must be"),
        ("base_url = 5\n", "payd.toml:1: base_url must be"),
        ("data_dir = ''\n", "payd.toml:1: data_dir must be a path"),
        ("log.format = 'xml'\n", "payd.toml:1: log.format must be one of "
         "\"auto\", \"console\", \"json\", not 'xml'"),
        ("[webhooks.test]\nallow_http = 1\n", "payd.toml:2: webhooks.test.allow_http must be true or false, "
         "not 1"),
        ("[webhooks.test]\n\nallow_networks = [\n  '127.0.0.0/8',\n  'localhost',\n]\n",
         "payd.toml:3: webhooks.test.allow_networks must be a list of addresses or networks"),
        ("[http]\ntrusted_proxies = '10.0.0.0/8'\n", "payd.toml:2: http.trusted_proxies must be a list"),
        ("[http]\ntrusted_proxies = ['10.0.0.1/8']\n", "payd.toml:2: http.trusted_proxies must be a list"),
    ],
)  # fmt: skip
def test_a_wrong_value_names_its_line_and_what_is_allowed(file: Path, text: str, expected: str) -> None:
    assert any(problem.startswith(expected) for problem in problems(file, text)), problems(file, text)


def test_all_mistakes_are_told_at_once(file: Path) -> None:
    found = problems(file, "a = 1\n[api]\nbody_max = 1\n", {"PAYD_LISTEN": "x"})
    assert len(found) == 3


def test_a_line_number_is_right_wherever_the_same_word_stands_elsewhere(file: Path) -> None:
    text = "# lifetime_s = 'x'\n[log]\nlevel = 'info' # [payments]\n[payments]\n# comment\nlifetime_s = 'x'\n"
    [problem] = problems(file, text)
    assert problem.startswith("payd.toml:6: payments.lifetime_s")


@pytest.mark.parametrize(
    ("text", "line"),
    [("listen = \n", 1), ("[log]\nlevel = 'info\n", 2), ("a = 1\na = 2\n", 2), ("[log\n", 1)],
)
def test_broken_toml_names_its_line(file: Path, text: str, line: int) -> None:
    [problem] = problems(file, text)
    assert problem.startswith(f"payd.toml:{line}: ")


def test_a_file_that_is_not_there_is_an_error_when_it_was_asked_for(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"payd\.toml: cannot be read"):
        load(file)
    with pytest.raises(ConfigError, match=r"other\.toml: cannot be read"):
        load(None, {"PAYD_CONFIG": "other.toml"})


def test_a_file_that_is_not_text_is_an_error(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(file)


def test_the_file_in_the_data_directory_comes_before_the_one_here(file: Path) -> None:
    assert load().file is None
    file.write_text("[payments]\nlifetime_s = 1\n")
    assert load().payments.lifetime_s == 1
    (file.parent / "data").mkdir()
    (file.parent / "data/payd.toml").write_text('data_dir = "."\n[payments]\nlifetime_s = 2\n')
    loaded = load()
    assert (loaded.payments.lifetime_s, loaded.data_dir) == (2, Path("data"))
    (file.parent / "other").mkdir()
    (file.parent / "other/payd.toml").write_text("[payments]\nlifetime_s = 3\n")
    assert load(None, {"PAYD_DATA_DIR": "other"}).payments.lifetime_s == 3
    assert load(None, {"PAYD_CONFIG": "payd.toml"}).payments.lifetime_s == 1
    assert load(file, {"PAYD_CONFIG": "other/payd.toml"}).payments.lifetime_s == 1


def test_relative_paths_in_a_file_start_at_its_folder(file: Path) -> None:
    file.write_text('data_dir = "store"\n[webhooks.live]\nca_file = "/etc/ca.pem"\n')
    loaded = load(file)
    assert loaded.data_dir == file.parent / "store"
    assert loaded.webhooks.live.ca_file == Path("/etc/ca.pem")


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[webhooks]\nbind = ["1.2.3.4", "1.2.3.5"]\n', "at most one IPv4 and one IPv6 address"),
        ('[webhooks]\nbind = ["eth0"]\n', "at most one IPv4 and one IPv6 address"),
        ("[webhooks]\nkeep_days = 14\n", "a whole number of days, 15 to 3650"),
        ('[webhooks]\ncanary = "yes"\n', "true or false"),
        ('[notify]\nurl = "ops.example"\n', "an http or https URL"),
        ('[notify]\nurl = "https://user:pass@ops.example"\n', "an http or https URL"),
    ],
)
def test_what_webhooks_cannot_be_is_refused_with_what_they_can(file: Path, text: str, words: str) -> None:
    [problem] = problems(file, text)
    assert problem.startswith("payd.toml:2: ")
    assert words in problem


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ('[webhooks]\nproxy = "http://user:hunter2@"\n', "PAYD_WEBHOOKS_PROXY"),
        ('[metrics]\ntoken = "hunter2"\n', "PAYD_METRICS_TOKEN"),
    ],
)
def test_a_secret_that_is_wrong_is_not_repeated(file: Path, text: str, variable: str) -> None:
    [in_file] = problems(file, text)
    [in_variable] = problems(file, "", {variable: text.split('"')[1]})
    assert "hunter2" not in in_file + in_variable
    assert "must be" in in_file
