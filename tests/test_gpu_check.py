import contextlib
import importlib.metadata
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench.gpu_check import __main__ as check
from bench.gpu_check import cells, energy, packages
from bench.gpu_check.__main__ import Step, run
from bench.gpu_check.findings import Kind, parse, within
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from accelbench.schema.vocab import Device

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("device", "node"), [("gpu", "/dev/nvidiactl"), ("tpu", "/dev/accel0")], ids=["gpu", "tpu"])
def test_without_the_device_it_says_what_it_would_do(device, node, tmp_path):
    if Path(node).exists():
        pytest.skip(f"there is a {device}")
    command = [sys.executable, "-m", "bench.gpu_check", "--device", device, "--out", str(tmp_path / "page")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
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
    assert not within(math.nan, (0.9, 1.1))


def test_power_is_sampled_between_two_readings_of_the_counter_and_compared_with_it(capsys):
    watts, joules, rest = iter([100.0, 200.0, 300.0]), iter([1000.0, 1500.0]), iter([True, True, False])
    found = energy.sample(lambda: next(watts), lambda: next(joules), lambda: next(rest), period_s=0.001)
    assert (found.watts, found.counted_j) == ([100, 200, 300], 500)
    assert found.times_s == sorted(found.times_s)
    assert energy.integral([0.0, 1.0, 4.0], [100.0, 200.0, 100.0]) == 150 + 450
    for times in ([1.0], [1.0, 1.0]):
        with pytest.raises(ValueError, match="two samples"):
            energy.integral(times, [5.0] * len(times))
    for counted_j, kind in ((2000.0, Kind.figure), (2180.0, Kind.figure), (2300.0, Kind.problem), (0.0, Kind.problem)):
        energy.judge(energy.Samples([5.0, 10.0, 15.0], [200.0, 200.0, 200.0], counted_j))
        finding = parse(capsys.readouterr().out)
        assert (finding.kind, f"ratio {counted_j / 2000:.3f}" in finding.text) == (kind, True)


@pytest.mark.parametrize(
    ("code", "seconds", "found"),
    [
        ("print('noise'); raise ValueError('broken')", 30, ["1", "ended with status 1: ValueError: broken"]),
        ("import time; time.sleep(60)", 3.0, ["1", "did not end within 3 s"]),
    ],
    ids=["raises", "hangs"],
)
def test_a_part_that_fails_keeps_what_it_found(code, seconds, found, tmp_path, monkeypatch):
    (tmp_path / "bench" / "gpu_check").mkdir(parents=True)
    (tmp_path / "bench/gpu_check/findings.py").write_text((ROOT / "bench/gpu_check/findings.py").read_text())
    part = f"from bench.gpu_check import findings\nfindings.figure(1)\n{code}\n"
    (tmp_path / "bench/gpu_check/it.py").write_text(part)
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    part = run(Step("it", ("it",), 1), "gpu", seconds)
    assert [finding.text for finding in part.findings] == found


def test_the_page_may_go_into_a_folder_and_a_comparison_without_time_is_not_run(tmp_path, capsys, monkeypatch):
    cells.run_cells(cells.compared(Device.cpu), time.monotonic())
    (finding,) = [parse(line) for line in capsys.readouterr().out.splitlines() if parse(line)]
    assert finding.kind == Kind.skipped
    assert finding.text.startswith("not run: no time was left")
    monkeypatch.setattr(check, "STEPS", [])
    assert check.main(["--device", "cpu", "--out", str(tmp_path)]) == 0
    assert "PASS" in (tmp_path / "cpu-check.txt").read_text()


def bare_packages(folder):
    """Links to torch, Lightning, timm, pytest, what they ask for, and what the check brings: all that is there."""
    found, waiting = {}, ["torch", "pytorch-lightning", "timm", "pytest", "pip", *packages.NEEDED, *packages.USEFUL]
    while waiting:
        name = canonicalize_name(waiting.pop())
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            if name not in found:
                found[name] = importlib.metadata.distribution(name)
                asked = map(Requirement, found[name].requires or [])
                waiting += [each.name for each in asked if each.marker is None or each.marker.evaluate()]
    for distribution in found.values():
        for top in {path.parts[0] for path in distribution.files} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(distribution.locate_file(top))


def test_its_parts_and_its_tests_need_no_other_packages_than_the_check_names(tmp_path):
    bare_packages(tmp_path)
    code = "import sys, pytest; from bench.gpu_check import cells, marked_tests\n"
    code += "files = marked_tests.marked_files(marked_tests.workplace().root, 'gpu')\n"
    code += (
        "sys.exit(pytest.main(['-q', '--setup-only', '-m', 'gpu', '-W', 'default', '-p', 'no:cacheprovider', *files]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [tmp_path, ROOT, ROOT / "src"]))}
    command, pipes = [sys.executable, "-S", "-c", code], {"capture_output": True, "text": True, "timeout": 200}
    ran = subprocess.run(command, cwd=ROOT, env=environment, check=False, **pipes)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-2000:]
