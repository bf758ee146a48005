"""Commands are shown by what they are for; one that no section has is shown nevertheless."""

from __future__ import annotations

import click

from payd.cli import COMMANDS
from payd.cli import SECTIONS as ROOT_SECTIONS
from payd.cli.sections import OTHERS, Sections
from payd.cli.webhook import SECTIONS, webhook
from tests.terminal import Terminal


def test_every_command_stands_in_a_section(payd: Terminal) -> None:
    assert sorted(COMMANDS) == sorted({name for names in ROOT_SECTIONS.values() for name in names})
    assert set(webhook.commands) == {name for names in SECTIONS.values() for name in names}
    for shown in (payd("--help").output, payd("webhook", "--help").output):
        assert f"{OTHERS}:" not in shown


def test_sections_stand_in_their_order_with_whole_sentences(payd: Terminal) -> None:
    shown = payd("--help").output
    places = [shown.index(f"\n{title}:\n") for title in ROOT_SECTIONS]
    assert places == sorted(places)
    assert "Live through the main job, from a created payment to a verified" in shown


def test_a_command_without_a_section_comes_last() -> None:
    group = Sections("g", sections={"First": ["one", "never made"]})
    for name in ("two", "one"):
        group.add_command(click.Command(name, help=f"Do {name}."))
    shown = group.get_help(click.Context(group))
    assert shown.endswith(f"First:\n  one  Do one.\n\n{OTHERS}:\n  two  Do two.")


def test_a_group_without_sections_shows_its_commands_in_one() -> None:
    group = Sections("g", commands=[click.Command("one", help="Do one.")])
    assert group.get_help(click.Context(group)).endswith("Commands:\n  one  Do one.")
