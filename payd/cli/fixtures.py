"""`payd fixtures`: calls of the API from a file, in order, for what a test or a demonstration begins with.

Source: DESIGN.md, "9. Test realm"; DESIGN.md, "12. Operations".
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from payd.cli.failure import Refused
from payd.cli.fixture_file import RUN, Missing, Step, filled, filled_text, found_at, read_fixtures
from payd.cli.options import Operator, on_realm
from payd.cli.sections import Sections
from payd.cli.show import show_json
from payd.cli.teaching import teach
from payd.clock import system_wall_ms
from payd.entropy import new_id

ERROR_STATUS: Final = 400

NOTES: Final = """
A file is JSON, or TOML where its name ends so: {"steps": [...]}. A step has method and path; and where they
are wanted name, headers, body, error (the code with which it is to be refused) and expect (values of the
answer by their place in it, such as "amount.value"). ${name.field} is a value of the answer to an earlier
step with that name, ${run} is new each time, for an Idempotency-Key.
"""


@click.group(
    cls=Sections,
    epilog=teach("""
payd fixtures run shop.json
"""),
)
def fixtures() -> None:
    """Run calls of the API from a file, in test mode."""


@fixtures.command(
    "run",
    epilog=teach(
        """
payd fixtures run shop.json
payd fixtures run orders.toml --set merchant=mrch_t…
payd fixtures run shop.json --json
""",
        codes="a step ended otherwise than the file says; those before it stay.",
        notes=NOTES,
        then="payd events list",
    ),
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="What ${NAME} is. Repeat.")
@on_realm
def run(operator: Operator, file: Path, given: tuple[str, ...]) -> None:
    """Do every step of a file by the API's own rules, until one does not end as it says.

    The file is read as a whole before anything is done.
    """
    known: dict[str, Any] = {RUN: new_id("run_", system_wall_ms()), **_given(given)}
    steps = read_fixtures(file, known)
    done: list[dict[str, Any]] = []
    for number, step in enumerate(steps, 1):
        try:
            call = _call_of(step, known)
            found = operator.ask("fixture.call", **call)
            check_step(step, known, found)
        except (Missing, Refused) as why:
            raise Refused(f"{file}: {step.words(number)}: {_words(why)}") from None
        if step.name:
            known[step.name] = found["body"]
        told = {"method": step.method, "path": call["path"], **found}
        done.append({"step": number, "name": step.name or None, **told})
        if not operator.as_json:
            _tell(done[-1])
    if operator.as_json:
        show_json(done)


def check_step(step: Step, known: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Hold an answer to what the step says of it.

    Raises:
        Refused: It is another one.
        Missing: It has not what is looked at.
    """
    status, body = found["status"], found["body"]
    code = body["code"] if status >= ERROR_STATUS else ""
    if code and code != step.error:
        wanted = f", not with {step.error}" if step.error else ""
        raise Refused(f"it was refused with {status} {code}{wanted}: {body['message']}")
    if step.error and not code:
        raise Refused(f"it was to be refused with {step.error}, and answered {status}.")
    for place, wanted in step.expect.items():
        value, wanted = found_at(body, filled_text(place, known)), filled(wanted, known)
        if value != wanted or type(value) is not type(wanted):
            raise Refused(f"{place} is {_json(value)}, not {_json(wanted)}.")


def _given(given: tuple[str, ...]) -> dict[str, str]:
    """What was typed, by name."""
    known: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name.isidentifier() or not equals:
            raise click.UsageError("--set is NAME=VALUE.")
        if name in (RUN, *known):
            raise click.UsageError(f"--set has {name} twice, or it is payd's own.")
        known[name] = value
    return known


def _call_of(step: Step, known: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "method": step.method,
        "path": filled_text(step.path, known),
        "headers": {name: filled_text(one, known) for name, one in step.headers.items()},
        "body": filled(step.body, known),
    }


def _words(why: Missing | Refused) -> str:
    return why.message if isinstance(why, Refused) else str(why)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _tell(one: Mapping[str, Any]) -> None:
    status = click.style(str(one["status"]), fg="green")
    code = f"  {one['body']['code']}, as it should" if one["status"] >= ERROR_STATUS else ""
    click.echo(f"{one['step']:>3}  {status}  {one['method'].ljust(6)}  {one['path']}{code}")
