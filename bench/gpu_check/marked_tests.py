"""The tests that are marked for the device. Those whose libraries are missing here are skipped, and counted."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from accelbench.project import workplace
from bench.gpu_check.findings import figure, problem, skipped

TEST_TIMEOUT_S = 60
END_S = 10.0  # pytest gets this much to end after an interrupt
MISSING = re.compile(r"No module named '([\w.]+)'|could not import '([\w.]+)'")


@dataclass
class Summary:
    """What pytest printed: tests of each outcome, why tests failed, and test modules by the library that they lack."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    missing: Counter[str] = field(default_factory=Counter)


def summary_of(lines: Iterable[str]) -> Summary:
    """The summary of what `pytest -v -rfEs` printed, even if it was killed before its own summary."""
    found = Summary()
    for line in lines:
        lacking = MISSING.search(line)
        if ran := re.match(r"\S+::.* (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b", line):
            found.counts[ran[1]] += 1
        elif lacking and line.startswith(("E   ", "SKIPPED")):
            found.missing[(lacking[1] or lacking[2]).partition(".")[0]] += 1
        elif failed := re.match(r"(?:FAILED|ERROR) (\S+::.*)", line):
            found.failures.append(failed[1])
        elif (broken := re.match(r"ERROR (\S+) - (.*)$", line)) and "ModuleNotFoundError" not in broken[2]:
            found.failures.append(f"{broken[1]}: {broken[2]}")
    return found


def marked_files(root: Path, mark: str) -> list[str]:
    """The test files with tests of a mark: only these are imported."""
    paths = sorted((root / "tests").rglob("test_*.py"))
    return [str(path.relative_to(root)) for path in paths if f"@pytest.mark.{mark}\n" in path.read_text()]


def main(mark: str, seconds: float) -> None:
    """Runs them for at most `seconds`."""
    root = workplace().root
    files = marked_files(root, mark)
    if not files:
        skipped(f"no test is marked {mark}")
        return
    command = [sys.executable, "-m", "pytest", "-v", "-rfEs", "--tb=short", "-m", mark, "-W", "default"]
    command += ["-p", "no:cacheprovider", "-o", f"timeout={TEST_TIMEOUT_S}", "--continue-on-collection-errors", *files]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    wide = {**os.environ, "COLUMNS": "300"}  # else pytest cuts off the errors in its summary
    with subprocess.Popen(command, cwd=root, env=wide, **pipes) as process:
        assert process.stdout is not None
        # An interrupt lets pytest print what has failed so far.
        timers = [threading.Timer(seconds - END_S, process.send_signal, [signal.SIGINT])]
        timers.append(threading.Timer(seconds, process.kill))
        for timer in timers:
            timer.start()
        lines = process.stdout.read().splitlines()
        in_time = timers[0].is_alive()
        for timer in timers:
            timer.cancel()
    found = summary_of(lines)
    figure(", ".join(f"{num} {word.lower()}" for word, num in sorted(found.counts.items())) or "no test ran")
    for name, num in found.missing.items():
        skipped(f"{num} test module(s) need {name}, which is not installed")
    for text in found.failures:
        problem(text)
    if not in_time:
        problem(f"not all tests ran within {seconds - END_S:.0f} s")
    if not found.counts["PASSED"]:
        problem(f"no test passed; pytest ended with status {process.returncode}: {lines[-1] if lines else 'no output'}")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
