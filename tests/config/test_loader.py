"""A configuration is defaults, a file, and variables on top; a mistake names its line and what is allowed."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from payd import config
from payd.config import Address, Config, ConfigError, load
from payd.config.loader import FILE_BYTES_MAX
from tests.config.conftest import Loaded, Problems

LIFETIME = "payd.toml:2: payments.lifetime_s must be a whole number of seconds"
NODES = 'rpc = ["https://node.example"]\n'


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


def test_a_variable_wins_over_the_file(file: Path) -> None:
    file.write_text('listen = "127.0.0.1:1"\n[payments]\nlifetime_s = 60\n')
    loaded = load(file, {"PAYD_LISTEN": "127.0.0.1:2", "PAYD_DATA_DIR": "here"})
    assert (loaded.listen.port, loaded.payments.lifetime_s, loaded.data_dir) == (2, 60, Path("here"))


def test_an_empty_variable_sets_nothing(file: Path) -> None:
    assert load(None, {"PAYD_LISTEN": "", "PAYD_CONFIG": "", "PAYD_DATA_DIR": ""}) == Config()
    Path("data").mkdir()
    Path("data", "payd.toml").touch()
    assert load(None, {"PAYD_DATA_DIR": ""}).file == Path("data", "payd.toml")


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
    others = {
        "PAYD_WEBHOOK_SECRET": "x",
        "PAYD_RELAYER_PASSWORD": "x",
        "PAYD_API": "x",
        "PAYD_MERCHANT_ID": "x",
    }
    assert config.unknown_variables({**env, **others}) == {
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
        ("[[chain]]\nid = 'eip155:1'\n", "payd.toml:1: unknown key chain; did you mean chains?"),
        ("\n'a.b' = 1\n", "payd.toml:2: unknown key a.b; see payd.toml"),
        ("\nzzzzzz = 1\n", "payd.toml:2: unknown key zzzzzz; see payd.toml for the keys there are"),
        ("payments = 5\n", "payd.toml:1: payments must be a section: [payments]"),
        ("webhooks.test.allow_htp = true\n", "payd.toml:1: unknown key webhooks.test.allow_htp; did you mean "
         "webhooks.test.allow_http (true or false)?"),
        ("[webhooks.test]\nallow_http = true\n\nbase_url = 'https://x'\n", "payd.toml:4: unknown key "
         "webhooks.test.base_url; did you mean base_url? It stands above the first [section]"),
        ("[http]\nlisten = '127.0.0.1:1'\n", "payd.toml:2: unknown key http.listen; did you mean listen? It "
         "stands above"),
    ],
)  # fmt: skip
def test_an_unknown_key_names_its_line_and_the_nearest_key(
    problems: Problems, text: str, expected: str
) -> None:
    [problem] = problems(text)
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
        ("base_url = 'https://x:99999'\n", "payd.toml:1: base_url must be an http or https URL"),
        ("base_url = 5\n", "payd.toml:1: base_url must be"),
        ("data_dir = ''\n", "payd.toml:1: data_dir must be a path"),
        ("log.format = 'xml'\n", "payd.toml:1: log.format must be one of "
         "\"auto\", \"console\", \"json\", not 'xml'"),
        ("[webhooks.test]\nallow_http = 1\n", "payd.toml:2: webhooks.test.allow_http must be true or false, "
         "not 1"),
        ("[webhooks.test]\n\nallow_networks = [\n  '127.0.0.0/8',\n  'localhost',\n]\n",
         "payd.toml:3: webhooks.test.allow_networks must be a list of addresses or networks"),
        ("[http]\ntrusted_proxies = '10.0.0.0/8'\n", "payd.toml:2: http.trusted_proxies must be a list"),
        ("[http]\ntrusted_proxies = ['172.17.0.1/16']\n", "payd.toml:2: http.trusted_proxies must be a list"
         ' of addresses or networks, such as ["127.0.0.0/8", "::1"], each network by its first address, not'),
    ],
)  # fmt: skip
def test_a_wrong_value_names_its_line_and_what_is_allowed(
    problems: Problems, text: str, expected: str
) -> None:
    assert any(problem.startswith(expected) for problem in problems(text)), problems(text)


def test_all_mistakes_are_told_at_once(problems: Problems) -> None:
    found = problems("a = 1\n[api]\nbody_max = 1\n", PAYD_LISTEN="x")
    assert len(found) == 3


def test_a_line_number_is_right_wherever_the_same_word_stands_elsewhere(problems: Problems) -> None:
    text = "# lifetime_s = 'x'\n[log]\nlevel = 'info' # [payments]\n[payments]\n# comment\nlifetime_s = 'x'\n"
    [problem] = problems(text)
    assert problem.startswith("payd.toml:6: payments.lifetime_s")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("listen = \n", 1),
        ("[log]\nlevel = 'info\n", 2),
        ("a = 1\na = 2\n", 2),
        ("[log\n", 1),
        ("a = [\n  1,\n", 2),
        ("# one\u2028line\na = [", 2),
    ],
)
def test_broken_toml_names_its_line(problems: Problems, text: str, line: int) -> None:
    [problem] = problems(text)
    assert problem.startswith(f"payd.toml:{line}: ")


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("listen = 127.0.0.1:8420\n", 15),
        ("listen = localhost:8420\n", 10),
        ("webhooks.test.allow_http = True\n", 28),
        ("payments.lifetime_s = 900 seconds\n", 27),
    ],
)
def test_who_leaves_out_quotes_or_writes_a_capital_is_told_how_values_are_written(
    problems: Problems, text: str, column: int
) -> None:
    (problem,) = problems(text)
    assert problem.startswith("payd.toml:1: ")
    assert problem.endswith(
        f"(column {column}); text stands in quotes, numbers and true or false stand without"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[http]\n[metrics]\n[http]\n", "3: Cannot declare [http] twice (column 6){section}"),
        (
            "[webhooks.test]\n[webhooks.'test']\n",
            "2: Cannot declare [webhooks.test] twice (column 17){section}",
        ),
        (
            'listen = ":1"\n[http]\nlisten = ":2"\nlisten = ":3"\n',
            "4: Cannot overwrite a value (column 14){key}",
        ),
        ('listen = ":1"\nlisten = ":2"', "2: Cannot overwrite a value (at end of document){key}"),
        ('listen = ":1\n', "1: Illegal character '\\n' (column 13){quote}"),
    ],
)
def test_who_pastes_what_is_there_or_forgets_a_quote_is_told_what_to_do(
    problems: Problems, text: str, words: str
) -> None:
    (problem,) = problems(text)
    assert problem == "payd.toml:" + words.format(
        section="; a section stands once in the file: put these lines into the one above",
        key="; a key stands once in its section: leave one of them",
        quote="; text ends in the same line, with the quote that it begins with",
    )


def test_a_file_that_is_not_there_is_an_error_when_it_was_asked_for(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"payd\.toml: cannot be read"):
        load(file)
    with pytest.raises(ConfigError, match=r"other\.toml: cannot be read"):
        load(None, {"PAYD_CONFIG": "other.toml"})


def test_a_file_that_is_not_text_is_an_error(file: Path) -> None:
    file.write_bytes(b"[log]\n# K\xe4se\n")
    with pytest.raises(ConfigError, match=r"payd\.toml:2: cannot be read: save it as UTF-8$"):
        load(file)


def test_what_editors_of_windows_put_into_a_file_is_no_mistake(file: Path) -> None:
    file.write_bytes("\ufeff[payments]\r\nlifetime_s = 60\r\n".encode())
    assert load(file).payments.lifetime_s == 60


def test_a_file_that_is_too_long_is_refused_rather_than_cut(file: Path, problems: Problems) -> None:
    last = "[payments]\nlifetime_s = 60\n"
    longest = last.rjust(FILE_BYTES_MAX, "\n")
    file.write_text(longest)
    assert load(file).payments.lifetime_s == 60
    assert problems("\n" + longest) == ["payd.toml: cannot be read: it is longer than 1048576 bytes"]


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


@pytest.mark.parametrize("folder", ["data", "other"])
def test_a_file_in_the_data_directory_leaves_the_data_where_it_was(file: Path, folder: str) -> None:
    env = {} if folder == "data" else {"PAYD_DATA_DIR": folder}
    Path(folder).mkdir()
    Path(folder, "payd.toml").write_text("[payments]\nlifetime_s = 2\n")
    loaded = load(None, env)
    assert (loaded.file, loaded.data_dir) == (Path(folder, "payd.toml"), Path(folder))


def test_a_file_elsewhere_has_the_data_beside_it(file: Path) -> None:
    file.write_text("[payments]\nlifetime_s = 2\n")
    assert load().data_dir == Path("data")
    assert load(file).data_dir == file.parent / "data"
    assert load(None, {"PAYD_CONFIG": str(file)}).data_dir == file.parent / "data"


def test_relative_paths_in_a_file_start_at_its_folder(file: Path) -> None:
    file.write_text('data_dir = "store"\n[webhooks.live]\nca_file = "/etc/ca.pem"\n')
    loaded = load(file)
    assert loaded.data_dir == file.parent / "store"
    assert loaded.webhooks.live.ca_file == Path("/etc/ca.pem")


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
def test_what_webhooks_cannot_be_is_refused_with_what_they_can(
    problems: Problems, text: str, words: str
) -> None:
    [problem] = problems(text)
    assert problem.startswith("payd.toml:2: ")
    assert words in problem


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ('[webhooks]\nproxy = "http://user:hunter2@"\n', "PAYD_WEBHOOKS_PROXY"),
        ('[metrics]\ntoken = "hunter2"\n', "PAYD_METRICS_TOKEN"),
        ('[notify]\nurl = "https://me:hunter2@ops.example"\n', "PAYD_NOTIFY_URL"),
    ],
)
def test_a_secret_that_is_wrong_is_not_repeated(problems: Problems, text: str, variable: str) -> None:
    [in_file] = problems(text)
    [in_variable] = problems("", **{variable: text.split('"')[1]})
    assert "hunter2" not in in_file + in_variable
    assert "must be" in in_file


def test_tables_of_an_array_become_rows_in_their_order(loaded: Loaded) -> None:
    text = f"[[chains]]\nid = 'eip155:8453'\n{NODES}[[chains]]\nid = 'eip155:1'\n{NODES}poll_ms = 500\n"
    first, second = loaded(text).chains
    assert (first.id, second.id, second.poll_ms) == ("eip155:8453", "eip155:1", 500)
    inline = "chains = [{id = 'eip155:8453', rpc = ['https://node.example']}]\n"
    assert loaded(inline).chains == (first,)


BASE = f"[[chains]]\nid = 'eip155:8453'\n{NODES}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{BASE}\n[[chains]]\nid = 'eip155:1'\n{NODES}\npoll_ms = 0\n",
         "payd.toml:9: chains[1].poll_ms must be a whole number of milliseconds, 50 to 60000, not 0"),
        (f"{BASE}[[chains]]\nid = 'eip155:1'\n{NODES}poll_m = 100\n",
         "payd.toml:7: unknown key chains[1].poll_m; did you mean chains[1].poll_ms (a whole number of"),
        (f"{BASE}zzzzzz = 1\n", "payd.toml:4: unknown key chains[0].zzzzzz; see payd.toml"),
        (f"{BASE}listen = 'x:1'\n", "payd.toml:4: unknown key chains[0].listen; did you mean listen? It "),
        (f"{BASE}lifetime_s = 1\n", "payd.toml:4: unknown key chains[0].lifetime_s; see payd.toml"),
        (f"{BASE}\n\n[[chains]]\nid = 'eip155:1'\n", "payd.toml:6: chains[1].rpc is missing: a list of"),
        (f"\n[[chains]]\n{NODES}", "payd.toml:2: chains[0].id is missing: the CAIP-2 id of an EVM chain"),
        ("\nchains = 5\n", "payd.toml:2: chains must be an array of tables: [[chains]]"),
        ("[chains]\nid = 'eip155:1'\n", "payd.toml:1: chains must be an array of tables: [[chains]]"),
        ("assets = ['USDC']\n", "payd.toml:1: assets must be an array of tables: [[assets]]"),
        (f"{BASE}[chains.depth]\n0 = 3\n1000 = 2\n", "payd.toml:4: chains[0].depth must be 1 to 1000 blocks"),
        ("chains = [\n  {id = 'eip155:1', rpc = ['https://a.example']},\n  {id = 'x'},\n]\n",
         "payd.toml:1: chains[1].id must be the CAIP-2 id"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_table_names_its_line_and_its_place(
    problems: Problems, text: str, expected: str
) -> None:
    assert any(problem.startswith(expected) for problem in problems(text)), problems(text)


def test_all_mistakes_of_a_table_are_told_at_once(problems: Problems) -> None:
    found = problems("[[chains]]\npoll_ms = 0\nsponsor = 1\n[[assets]]\ndecimals = 77\n")
    assert [problem.split()[0] for problem in found] == [
        "payd.toml:2:", "payd.toml:3:", "payd.toml:1:", "payd.toml:1:",
        "payd.toml:5:", *["payd.toml:4:"] * 4,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["CHAINS", "ASSETS"])
def test_a_variable_cannot_hold_tables_and_says_who_can(problems: Problems, name: str) -> None:
    [problem] = problems("", **{f"PAYD_{name}": "eip155:1"})
    assert problem == f"PAYD_{name}: no variable holds tables; put [[{name.lower()}]] into payd.toml"


def test_a_disagreement_names_the_variable_or_the_line_that_it_comes_from(problems: Problems) -> None:
    [in_file] = problems('[rates]\n\ntable = { "USDX/USD" = "1" }\n')
    assert in_file.startswith("payd.toml:3: rates.table.USDX/USD is of USDX, which is the symbol of no asset")
    [in_variable] = problems("", PAYD_RATES_TABLE="USDX/USD=1")
    assert in_variable.startswith("PAYD_RATES_TABLE: rates.table.USDX/USD is of USDX")
