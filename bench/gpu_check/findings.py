"""The output of the check's parts: one JSON object per line. The main process reads it while the part runs."""

import json
import os
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

SIMULATED = "GPU_CHECK_SIMULATED"  # environment variable that marks a simulated GPU
IS_SIMULATED = SIMULATED in os.environ  # whether a simulated driver replaces the GPU's driver


class Kind(StrEnum):
    """The meaning of a finding: a figure, a problem, or a check that was not possible here."""

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
    """A part of the check, with its findings and its duration."""

    title: str
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """The texts of the problems."""
        return [found.text for found in self.findings if found.kind == Kind.problem]


def report(kind: Kind, text: str) -> None:
    """Prints a finding."""
    print(json.dumps({"kind": kind, "text": text}), flush=True)


figure = partial(report, Kind.figure)
problem = partial(report, Kind.problem)
skipped = partial(report, Kind.skipped)


def within(ratio: float, bounds: tuple[float, float]) -> bool:
    """Whether a ratio is within its bounds. The bounds themselves count as within; NaN does not."""
    return bounds[0] <= ratio <= bounds[1]


def parse(line: str) -> Finding | None:
    """The finding in a line of output. None if a library printed the line."""
    try:
        values = json.loads(line)
        return Finding(Kind(values["kind"]), str(values["text"]))
    except (ValueError, KeyError, TypeError):
        return None


def page(heading: list[str], parts: list[Part]) -> str:
    """The text of the page: the lines of `heading` about the machine, then the verdict, then the figures."""
    problems = [f"  {part.title}: {' '.join(text.split())}" for part in parts for text in part.problems]
    num_skipped = sum(found.kind == Kind.skipped for part in parts for found in part.findings)
    verdict = f"{len(problems)} FALL SHORT" if problems else "PASS"
    lines = [*heading, "", verdict + (f" ({num_skipped} skipped)" if num_skipped else ""), *problems]
    for part in parts:
        lines += ["", f"== {part.title} ({part.seconds:.0f} s)"]
        lines += [MARKS[found.kind] + found.text for found in part.findings]
    return "\n".join([*lines, ""])
