"""Runs the tests that are marked for the device. Tests whose libraries are missing here are skipped and counted."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from accelbench.project import workplace
from bench.gpu_check.findings import IS_SIMULATED, figure, problem, skipped

TEST_TIMEOUT_S = 60
END_S = 10.0  # time that pytest gets to end after an interrupt
MISSING = re.compile(r"No module named '([\w.]+)'|could not import '([\w.]+)'")


def marked_files(root: Path, mark: str) -> list[str]:
    """The test files that contain a mark. Only these are imported."""
    paths = sorted((root / "tests").rglob("test_*.py"))
    return [str(path.relative_to(root)) for path in paths if f"@pytest.mark.{mark}\n" in path.read_text()]


def main(mark: str, seconds: float) -> None:
    """Runs the tests with this mark for at most `seconds`."""
    root = workplace().root
    files = marked_files(root, mark)
    if IS_SIMULATED:
        skipped("not run: tests/simulated_gpu has those of a simulated GPU")
        return
    if not files:
        skipped(f"no test is marked {mark}")
        return
    command = [sys.executable, "-m", "pytest", "-q", "-rfEs", "--tb=no", "-m", mark, "-W", "default"]
    command += ["-p", "no:cacheprovider", "-o", f"timeout={TEST_TIMEOUT_S}", "--continue-on-collection-errors", *files]
    # After an interrupt, pytest prints a summary of the tests that have run.
    command = ["timeout", "--foreground", "-s", "INT", "-k", f"{END_S}", f"{max(seconds - END_S, 1)}", *command]
    wide = {**os.environ, "COLUMNS": "300"}  # otherwise pytest cuts the errors in its summary
    ran = subprocess.run(command, cwd=root, env=wide, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = ran.stdout.splitlines()
    summary = [line for line in lines if line.startswith(("FAILED", "ERROR", "SKIPPED"))]
    lacking = [MISSING.search(line) for line in summary]
    figure(lines[-1].strip("= ") if lines else "no output")
    for name, num in Counter((found[1] or found[2]).partition(".")[0] for found in lacking if found).items():
        skipped(f"{num} test module(s) need {name}, which is not installed")
    for line in (line for line, found in zip(summary, lacking, strict=True) if not (found or line[0] == "S")):
        problem(line)
    if ran.returncode in (124, 137):  # interrupted, killed
        skipped(f"not run: some tests, since {seconds - END_S:.0f} s were left for all of them")
    if not lines or " passed" not in lines[-1]:
        problem(f"no test passed; pytest ended with status {ran.returncode}")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
