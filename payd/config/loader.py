"""Reads the configuration: a file and `PAYD_*` become one frozen `Config`, and a mistake names its line.

Source: DESIGN.md, "12. Operations".
"""

from __future__ import annotations

import codecs
import dataclasses
import difflib
import re
import tomllib
import typing
from ast import literal_eval
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from payd.config.checks import disagreements
from payd.config.keys import Key, Place, Row, Rows, written
from payd.config.kinds import Kind
from payd.config.lines import line_of
from payd.config.sections import KEYS, ROWS, SECTIONS, VARIABLES, Config

FILE_NAME: Final = "payd.toml"
FILE_BYTES_MAX: Final = 1 << 20  # a configuration is read by people; more is a wrong file
_SPELLING: Final = "text stands in quotes, numbers and true or false stand without"
_ADVICE: Final = {
    # A value without its quotes, `True`, and a unit behind a number.
    "Invalid value": _SPELLING,
    "Expected newline or end of document after a statement": _SPELLING,
    "Illegal character '\\n'": "text ends in the same line, with the quote that it begins with",
    # What was pasted below a file that has it.
    "Cannot declare": "a section stands once in the file: put these lines into the one above",
    "Cannot overwrite a value": "a key stands once in its section: leave one of them",
}
"""What to do, by what `tomllib` says first."""
_DECLARED: Final = re.compile(r"(?<=^Cannot declare )\(.*\)(?= twice)")
NEAR: Final = 0.8  # how alike a name must be to be what was meant; most variables share their beginning

OTHER_VARIABLES: Final = (
    "PAYD_CONFIG",
    "PAYD_API_KEY",  # `payd listen`, and the shops in README.md
    "PAYD_WEBHOOK_SECRET",  # `payd webhook verify`, and these shops
    "PAYD_API",  # these shops
    "PAYD_MERCHANT_ID",  # these shops
    "PAYD_RELAYER_PASSWORD",  # wherever the keystore is opened
)
"""Variables that are read and are no key."""


class ConfigError(ValueError):
    """The configuration cannot be used. `problems` has one line for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load(path: Path | None = None, env: Mapping[str, str] | None = None) -> Config:
    """The configuration from a file, overridden by the environment.

    The file is `path`, else `PAYD_CONFIG`, else `payd.toml` in the data directory, else `./payd.toml`, else
    none. Relative paths in a file start at the file's own folder. The data directory is `data` there, unless
    something sets another; a file that was found in the data directory leaves it where it is.

    Raises:
        ConfigError: The file cannot be read, or something in it or in a variable is wrong.
    """
    env = {} if env is None else env
    path, data_dir = _find(path, env)
    file = None if path is None else _File(path, data_dir)
    values = {} if file is None else file.values()
    problems = [] if file is None else file.problems
    set_by = _from_variables(env, values, problems)
    if problems:
        raise ConfigError(problems)
    config = _build(Config, values)
    assert isinstance(config, Config)
    for place, words in disagreements(config):
        if variable := set_by.get(written(place[:2])):
            problems.append(f"{variable}: {written(place)} {words}")
        else:
            assert file is not None, "the defaults agree with each other"
            file.refuse(place, f"{written(place)} {words}")
    if problems:
        raise ConfigError(problems)
    return dataclasses.replace(config, file=path)


def unknown_variables(env: Mapping[str, str]) -> dict[str, str | None]:
    """Variables that begin with `PAYD_` and set nothing, each with the one that is probably meant.

    Orchestrators add their own: no error.
    """
    known = (*VARIABLES, *OTHER_VARIABLES)
    unknown = sorted(name for name in env if name.startswith("PAYD_") and name not in known)
    return {name: next(iter(difflib.get_close_matches(name, known, 1, NEAR)), None) for name in unknown}


def _find(path: Path | None, env: Mapping[str, str]) -> tuple[Path | None, Path]:
    """The file, if there is one, and the data directory unless something sets another."""
    default: Path = KEYS["data_dir"].default
    if path is not None or env.get("PAYD_CONFIG"):
        path = path or Path(env["PAYD_CONFIG"])
        return path, path.parent / default
    data_dir = Path(env.get("PAYD_DATA_DIR") or default)
    places = (data_dir / FILE_NAME, Path(FILE_NAME))
    return next((place for place in places if place.is_file()), None), data_dir


class _File:
    """A file that is being read, and what is wrong in it so far."""

    def __init__(self, path: Path, data_dir: Path) -> None:
        self.path = path
        self.data_dir = data_dir
        self.problems: list[str] = []
        try:
            with path.open("rb") as opened:
                data = opened.read(FILE_BYTES_MAX + 1)
        except OSError as error:
            raise ConfigError([f"{path}: cannot be read: {error.strerror or error}"]) from None
        if len(data) > FILE_BYTES_MAX:
            raise ConfigError([f"{path}: cannot be read: it is longer than {FILE_BYTES_MAX} bytes"])
        try:
            self._text = data.removeprefix(codecs.BOM_UTF8).decode()  # some editors begin with such a mark
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ConfigError([f"{path}:{line}: cannot be read: save it as UTF-8"]) from None

    def refuse(self, place: Place, words: str) -> None:
        """Keep a problem with its line."""
        self.problems.append(f"{self.path}:{line_of(self._text, place)}: {words}")

    def values(self) -> dict[str, Any]:
        """What the file sets, by key, as far as it is allowed."""
        values: dict[str, Any] = {"data_dir": self.data_dir}
        for place, value in _flatten(self._tree()):
            name = written(place)
            if name in ROWS:
                values[name] = tuple(self._rows(place, value, ROWS[name]))
            elif name in KEYS:
                self._set(values, name, place, value, KEYS[name].kind)
            else:
                self.refuse(place, _unknown(name))
        return values

    def _tree(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"at line (\d+), ", str(error))
            at = line[1] if line else len(self._text.removesuffix("\n").split("\n"))
            words = str(error).replace(line[0] if line else "", "")
            words = _DECLARED.sub(lambda names: f"[{written(literal_eval(names[0]))}]", words)
            advice = [f"; {what}" for said, what in _ADVICE.items() if words.startswith(said)]
            raise ConfigError([f"{self.path}:{at}: {words}{''.join(advice)}"]) from None
        except ValueError:  # of `int`, which takes no number of thousands of digits
            raise ConfigError([f"{self.path}: cannot be read: a number is too long"]) from None
        except RecursionError:
            raise ConfigError([f"{self.path}: cannot be read: lists in lists, too deep"]) from None

    def _set(self, values: dict[str, Any], name: str, place: Place, value: Any, kind: Kind) -> None:
        try:
            parsed = kind.parse(value)
        except (ValueError, TypeError):
            self.refuse(place, f"{written(place)} {kind.refusal(value)}")
        else:
            values[name] = self.path.parent / parsed if isinstance(parsed, Path) else parsed

    def _rows(self, place: Place, tables: Any, rows: Rows) -> Iterator[Any]:
        """The rows that can be made of an array of tables."""
        name = written(place)
        if not (isinstance(tables, list) and all(isinstance(table, dict) for table in tables)):
            self.refuse(place, f"{name} must be an array of tables: [[{name}]]")
            return
        for number, table in enumerate(tables):
            row = rows.kind_of(table.get(rows.by))
            given: dict[str, Any] = {}
            for key, value in table.items():
                at = (*place, number, key)
                if key in row.keys:
                    self._set(given, key, at, value, row.keys[key].kind)
                else:
                    self.refuse(at, _unknown_in_row(at, rows, row))
            for key in sorted(row.required - table.keys()):
                at = (*place, number, key)
                self.refuse(at, f"{written(at)} is missing: {row.keys[key].kind.words}")
            if given.keys() >= row.required:
                yield row.make(given)


def _flatten(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Places and values; what lies in an unknown section is named by the section."""
    for name, value in tree.items():
        if written((*above, name)) in SECTIONS and isinstance(value, dict):
            yield from _flatten(value, (*above, name))
        else:
            yield (*above, name), value


def _from_variables(env: Mapping[str, str], values: dict[str, Any], problems: list[str]) -> dict[str, str]:
    """Put what variables say over `values`; gives the variable that set each key."""
    set_by = {}
    for variable, key in VARIABLES.items():
        if text := env.get(variable):
            kind = KEYS[key].kind
            try:
                values[key] = kind.parse(kind.from_text(text))
            except (ValueError, TypeError):
                problems.append(f"{variable}: {kind.refusal(text)}")
            set_by[key] = variable
    for name in ROWS:
        if env.get(variable := f"PAYD_{name.upper()}"):
            problems.append(f"{variable}: no variable holds tables; put [[{name}]] into {FILE_NAME}")
    return set_by


def _unknown(name: str) -> str:
    if name in SECTIONS:
        return f"{name} must be a section: [{name}]"
    return _unknown_near(name, name, [*KEYS, *SECTIONS, *ROWS], KEYS)


def _unknown_in_row(place: Place, rows: Rows, row: Row) -> str:
    name, key = written(place), str(place[-1])
    if rows.is_of_another(key):
        there = ", ".join(row.keys)
        return f"{name} is not for a table with this {rows.by}; such a one has {there}"
    return _unknown_near(name, key, list(row.keys), row.keys)


def _unknown_near(name: str, typed: str, there: list[str], keys: Mapping[str, Key]) -> str:
    if (last := typed.rpartition(".")[2]) in KEYS:
        return f"unknown key {name}; did you mean {last}? It stands above the first [section]"
    near = difflib.get_close_matches(typed, there, 1)
    if not near:
        return f"unknown key {name}; see payd.toml for the keys there are"
    meant, key = name.removesuffix(typed) + near[0], keys.get(near[0])
    return f"unknown key {name}; did you mean {meant}" + (f" ({key.kind.words})?" if key else "?")


def _build(section: type[Any], values: Mapping[str, Any], prefix: str = "") -> Any:
    hints = typing.get_type_hints(section)
    given: dict[str, Any] = {}
    for each in dataclasses.fields(section):
        hint, name = hints[each.name], prefix + each.name
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            given[each.name] = _build(hint, values, f"{name}.")
        elif name in values:
            given[each.name] = values[name]
    return section(**given)
