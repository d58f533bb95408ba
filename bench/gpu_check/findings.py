"""What the parts of the check print: one JSON object per line, which the main process reads while the part runs."""

import json
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a finding means: a figure, something that falls short, or something that could not be checked here."""

    figure = "figure"
    problem = "problem"
    skipped = "skipped"


@dataclass(frozen=True)
class Finding:
    """One line of the page."""

    kind: Kind
    text: str


@dataclass
class Part:
    """A part of the check and what it found.

    Attributes:
        seconds: how long it took.
    """

    title: str
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """What falls short."""
        return [found.text for found in self.findings if found.kind == Kind.problem]


def figure(text: str) -> None:
    """Reports a figure."""
    _print(Kind.figure, text)


def problem(text: str) -> None:
    """Reports what falls short."""
    _print(Kind.problem, text)


def skipped(text: str) -> None:
    """Reports what could not be checked, with the reason."""
    _print(Kind.skipped, text)


def _print(kind: Kind, text: str) -> None:
    print(json.dumps({"kind": kind, "text": text}), flush=True)


def parse(line: str) -> Finding | None:
    """The finding of a line; None if a library printed the line."""
    try:
        values = json.loads(line)
        return Finding(Kind(values["kind"]), str(values["text"]))
    except (ValueError, KeyError, TypeError):
        return None


def page(heading: list[str], parts: list[Part]) -> str:
    """The page of figures, with the verdict at its top.

    Args:
        heading: lines that describe the machine.
        parts: what each part found.
    """
    problems = [f"{part.title}: {' '.join(text.split())}" for part in parts for text in part.problems]
    num_skipped = sum(found.kind == Kind.skipped for part in parts for found in part.findings)
    verdict = "PASS" if not problems else f"{len(problems)} FALL SHORT"
    lines = [*heading, "", verdict + (f" ({num_skipped} skipped)" if num_skipped else "")]
    lines += [f"  {text}" for text in problems]
    marks = {Kind.figure: "  ", Kind.problem: "! ", Kind.skipped: "- "}
    for part in parts:
        lines += ["", f"== {part.title} ({part.seconds:.0f} s)"]
        lines += [marks[found.kind] + found.text for found in part.findings]
    return "\n".join([*lines, ""])
