import contextlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.gpu_check import cells, packages
from bench.gpu_check.__main__ import Step, run
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from marks import slow

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("device", "node"), [("gpu", "/dev/nvidiactl"), ("tpu", "/dev/accel0")], ids=["gpu", "tpu"])
def test_without_the_device_it_says_what_it_would_do(device, node, tmp_path):
    if Path(node).exists():
        pytest.skip(f"there is a {device}")
    command = [sys.executable, "-m", "bench.gpu_check", "--device", device, "--out", str(tmp_path / "page")]
    ran = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60)
    first, *rest = ran.stdout.splitlines()
    assert first.startswith(f"There is no {device} here: ")
    assert {"  ceilings", "  cells compared with a plain loop", "  tests"} <= set(rest)
    assert ("  doctor" in rest) == (device == "gpu")
    assert not list(tmp_path.iterdir())


def test_long_steps_have_narrower_bounds_and_the_plain_loops_before_and_after_count_alike():
    tried = [(0.01, 0.97, True), (0.01, 1.04, False), (0.01, 0.96, False), (0.0001, 1.09, True), (0.0001, 0.89, False)]
    for step_s, ratio, good in tried:
        pair = cells.Pair(step_s / ratio, (0.9 * step_s, 1.1 * step_s))
        assert (pair.ratio, pair.spread, pair.is_good) == (pytest.approx(ratio), pytest.approx(0.2), good)


@pytest.mark.parametrize(
    ("code", "seconds", "found"),
    [
        ("print('noise'); raise ValueError('broken')", 30, ["1", "ended with status 1: ValueError: broken"]),
        slow("import time; time.sleep(60)", 3.0, ["1", "did not end within 3 s"]),
    ],
    ids=["raises", "hangs"],
)
def test_a_part_that_fails_keeps_what_it_found(code, seconds, found, tmp_path, monkeypatch):
    folder = tmp_path / "bench" / "gpu_check"
    folder.mkdir(parents=True)
    (folder / "findings.py").symlink_to(ROOT / "bench/gpu_check/findings.py")
    (folder / "it.py").write_text(f"from bench.gpu_check import findings\nfindings.figure(1)\n{code}\n")
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    part = run(Step("it", ("it",), 1), "gpu", seconds)
    assert [finding.text for finding in part.findings] == found


def bare_packages(folder):
    """Links to torch, Lightning, timm, pytest, what they ask for, and what the check brings: all that is there."""
    found, waiting = set(), ["torch", "pytorch-lightning", "timm", "pytest", "pip", *packages.NEEDED, *packages.USEFUL]
    while waiting:
        name = canonicalize_name(waiting.pop())
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            if name not in found:
                distribution = importlib.metadata.distribution(name)
                found.add(name)
                asked = map(Requirement, distribution.requires or [])
                waiting += [each.name for each in asked if each.marker is None or each.marker.evaluate()]
                for top in {path.parts[0] for path in distribution.files} - {"..", "__pycache__"}:
                    if not (folder / top).exists():
                        (folder / top).symlink_to(distribution.locate_file(top))


@pytest.mark.slow
def test_its_parts_and_its_tests_need_no_other_packages_than_the_check_names(tmp_path):
    bare_packages(tmp_path)
    code = """import sys, pytest; from bench.gpu_check import cells, marked_tests
files = marked_tests.marked_files(marked_tests.workplace().root, 'gpu')
sys.exit(pytest.main(['-q', '--setup-only', '-m', 'gpu', '-W', 'default', '-p', 'no:cacheprovider', *files]))"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [tmp_path, ROOT, ROOT / "src"]))}
    command, pipes = [sys.executable, "-S", "-c", code], {"capture_output": True, "text": True, "timeout": 200}
    ran = subprocess.run(command, cwd=ROOT, env=environment, check=False, **pipes)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-2000:]
