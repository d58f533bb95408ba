"""What the parts of the check print: one JSON object per line, which the main process reads while the part runs."""

import json
import os
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

SIMULATED = "GPU_CHECK_SIMULATED"  # the variable
IS_SIMULATED = SIMULATED in os.environ  # whether a simulated driver takes the place of the GPU's


class Kind(StrEnum):
    """What a finding means: a figure, something that falls short, or something that could not be checked here."""

    figure = "figure"
    problem = "problem"
    skipped = "skipped"


MARKS = {Kind.figure: "  ", Kind.problem: "! ", Kind.skipped: "- "}


@dataclass(frozen=True)
class Finding:
    """One line of the page."""

    kind: Kind
    text: str


@dataclass
class Part:
    """A part of the check, what it found, and how long it took."""

    title: str
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """What falls short."""
        return [found.text for found in self.findings if found.kind == Kind.problem]


def report(kind: Kind, text: str) -> None:
    """Prints a finding."""
    print(json.dumps({"kind": kind, "text": text}), flush=True)


figure = partial(report, Kind.figure)
problem = partial(report, Kind.problem)
skipped = partial(report, Kind.skipped)


def within(ratio: float, bounds: tuple[float, float]) -> bool:
    """Whether a ratio lies within its bounds, these included; NaN does not."""
    return bounds[0] <= ratio <= bounds[1]


def parse(line: str) -> Finding | None:
    """The finding of a line; None if a library printed the line."""
    try:
        values = json.loads(line)
        return Finding(Kind(values["kind"]), str(values["text"]))
    except (ValueError, KeyError, TypeError):
        return None


def page(heading: list[str], parts: list[Part]) -> str:
    """The page of figures, with the verdict at its top, below the lines that describe the machine."""
    problems = [f"  {part.title}: {' '.join(text.split())}" for part in parts for text in part.problems]
    num_skipped = sum(found.kind == Kind.skipped for part in parts for found in part.findings)
    verdict = f"{len(problems)} FALL SHORT" if problems else "PASS"
    lines = [*heading, "", verdict + (f" ({num_skipped} skipped)" if num_skipped else ""), *problems]
    for part in parts:
        lines += ["", f"== {part.title} ({part.seconds:.0f} s)"]
        lines += [MARKS[found.kind] + found.text for found in part.findings]
    return "\n".join([*lines, ""])
