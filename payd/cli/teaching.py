"""What stands below a command's options: examples, what its exit codes mean, and where to go next."""

from __future__ import annotations

from typing import Final

UNWRAPPED: Final = "\b\n"
"""Before a paragraph that click prints as it is."""


def teach(examples: str, *, codes: str = "", then: str = "", notes: str = "") -> str:
    """An epilog for click.

    Args:
        examples: Lines that work when they are typed, with words behind two blanks where they need some. A
            line with a backslash at its end goes on in the next.
        codes: What 1 means here, where that is more than a refusal.
        then: What comes next, as a command.
        notes: Further words, before all that.
    """
    lines = [line.rstrip() for line in examples.strip("\n").splitlines()]
    ending = [f"Next: {then}"] if then else []
    if codes:
        ending.append(f"Exit code 1: {codes}")
    ending.append("Exit codes: payd help exit-codes")
    paragraphs = [notes.strip()] if notes else []
    paragraphs.append(UNWRAPPED + "\n".join(["Examples:", *(f"  {line}" for line in lines)]))
    paragraphs.append(UNWRAPPED + "\n".join(ending))
    return "\n\n".join(paragraphs)
