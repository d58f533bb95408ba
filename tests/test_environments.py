import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from bench.gpu_check import cells, packages
from bench.gpu_check.__main__ import Step, run
from packaging.requirements import Requirement

from marks import slow

ROOT = Path(__file__).resolve().parents[1]
ALL = sorted((ROOT / "environments").glob("*.in"))
# Of another framework; the others are the whole project with more packages, and packages whose networks are measured.
ENVIRONMENTS = [path for path in ALL if path.stem not in ("cluster", "models")]
# The packages that compute. Each environment exists to have another set of them.
COMPUTING = {"keras", "pytorch-lightning", "safetensors", "tensorflow", "timm", "torch", "torch_xla", "torchvision"}


def ranges(requirements):
    """Package name -> its requirement line, without the packages that compute."""
    found = {re.match(r"[\w-]+", line).group(): line for line in requirements}
    return {name: line for name, line in found.items() if name not in COMPUTING}


LOCKS = [ROOT / "requirements.lock", ROOT / "docs/site.lock", *(path.with_suffix(".lock") for path in ALL)]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_an_environment_differs_from_the_project_only_in_the_packages_that_compute_and_has_no_torch(path):
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    extras = PYPROJECT["project"]["optional-dependencies"]
    assert ranges(lines) == ranges([*PYPROJECT["project"]["dependencies"], *extras["dvc"], *extras["ui"]])
    assert {re.match(r"[\w-]+", line).group() for line in lines} & COMPUTING
    assert not re.search(r"^torch", path.with_suffix(".lock").read_text(), re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_lock_has_hashes_and_names_no_host(lock):
    assert "://" not in (text := lock.read_text())
    assert all(block.count("--hash=sha256:") for block in re.split(r"\n(?=[\w-]+==)", text)[1:])


ADVISORIES = runpy.run_path(str(ROOT / "environments/check_advisories.py"))  # the script of `make lint`


def test_make_lint_compares_every_lock_with_the_advisories_which_have_sources_and_reasons():
    assert "\t$(BIN)/python environments/check_advisories.py\n" in (ROOT / "Makefile").read_text()
    assert set(ADVISORIES["LOCKS"]) == set(LOCKS)
    assert ADVISORIES["main"]([]) == 0
    for advisory in (known := ADVISORIES["read_advisories"]()):
        assert advisory.affected
        assert advisory.reason
        assert advisory.source.startswith("https://")
        assert advisory.accepted is None or len(advisory.accepted.split()) > 3
    assert known


def test_a_lock_with_versions_that_are_not_accepted_fails(tmp_path, capsys):
    lock = tmp_path / "my.lock"
    pins = ["numpy==2.4.6", "Lightning[extra]==2.6.3 ; python_version < '3.14'", "torch==2.5.1+cpu", "keras==3.14.0"]
    lock.write_text("# made by hand\n" + "".join(f"{pin} \\\n    --hash=sha256:00\n" for pin in pins))
    assert ADVISORIES["main"]([str(lock)]) == 1
    text = capsys.readouterr().out
    assert "my.lock: Lightning 2.6.3 is affected by GHSA-w37p-236h-pfx3 (==2.6.2 or " in text
    assert "my.lock: numpy" not in text
    for advisory in ("CVE-2025-32434", "CVE-2026-12479"):
        assert advisory in text


def test_the_malicious_releases_are_in_no_range():
    lines = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["tool"]["uv"]["constraint-dependencies"]]
    allowed = {requirement.name: requirement.specifier for requirement in map(Requirement, lines)}
    for name in ("pytorch-lightning", "lightning"):
        assert [*allowed[name].filter(["2.6.2", "2.6.3", "2.6.6"])] == ["2.6.6"]


def test_the_makefile_names_only_tests_that_exist():
    """pytest runs nothing if one of its paths is missing."""
    named = re.findall(r"tests/[\w/.]+", (ROOT / "Makefile").read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


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
)
def test_a_part_that_fails_keeps_what_it_found(code, seconds, found, tmp_path, monkeypatch):
    folder = tmp_path / "bench" / "gpu_check"
    folder.mkdir(parents=True)
    (folder / "findings.py").symlink_to(ROOT / "bench/gpu_check/findings.py")
    (folder / "it.py").write_text(f"from bench.gpu_check import findings\nfindings.figure(1)\n{code}\n")
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    part = run(Step("it", ("it",), 1), "gpu", seconds)
    assert [finding.text for finding in part.findings] == found
