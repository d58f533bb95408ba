"""What an engine costs whoever adds it: the files in tests/engines/sleep, and a word in the vocabulary."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

import pytest

import accelbench
from fakes import make_project

FILES = Path(__file__).with_name("sleep")
WORD = '    sleep = "sleep"\n'
MAX_LINES = 60
STEP_S = 0.010  # what the engine sleeps for each batch
BATCH_SIZE = 32


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project, and a copy of the package that has the engine, in src/."""
    root = make_project(tmp_path_factory.mktemp("project"))
    source = Path(accelbench.__path__[0]).parent
    shutil.copytree(source, root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    folder = root / "src" / "accelbench" / "engines" / "sleep"
    folder.mkdir()
    for name in ("spec.py", "engine.py"):
        shutil.copy(FILES / name, folder)
    shutil.copy(FILES / "sleep.yaml", root / "conf" / "engine")
    vocabulary = root / "src" / "accelbench" / "schema" / "vocab.py"
    first = '    keras = "keras"\n'
    assert vocabulary.read_text().count(first) == 1
    vocabulary.write_text(vocabulary.read_text().replace(first, first + WORD))
    return root


def python(project, *words):
    """Standard output of Python with the copy of the package."""
    environment = {**os.environ, "PYTHONPATH": str(project / "src")}
    done = subprocess.run([sys.executable, *words], cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def run(project, *settings):
    """The measurement of the cell that `accelbench plan --json` makes of the settings."""
    code = f"import sys; from accelbench.cli import main; sys.exit(main(['plan', '--json', *{list(settings)!r}]))"
    (line,) = python(project, "-c", code).splitlines()
    cell = project / "cell.json"
    cell.write_text(line)
    outcome = json.loads(python(project, "-m", "accelbench.worker", str(cell), str(project / "data" / "mnist")))
    assert outcome["status"] == "ok", outcome
    return outcome["measurement"]


def test_an_engine_is_sixty_lines():
    lines = [line for path in FILES.iterdir() if path.is_file() for line in path.read_text().splitlines()]
    assert len([*lines, WORD]) <= MAX_LINES


def test_a_window_of_inference_is_as_fast_as_the_sleep(project):
    measured = run(project, "engine=sleep", "mode=infer", f"batch_size={BATCH_SIZE}", "device=cpu", "model=mlp")
    rate = median(block["num_samples"] / block["seconds"] for block in measured["blocks"])
    assert 0.5 * BATCH_SIZE / STEP_S < rate <= BATCH_SIZE / STEP_S
    assert median(measured["launch_s"]) == pytest.approx(STEP_S, rel=0.5)
    assert (measured["copy_in_s"], measured["copy_out_s"]) == ([], [])  # a CPU copies nothing
    assert len(measured["data_s"]) == len(measured["latency_s"]) > 0


def test_epochs_of_training_are_as_fast_as_the_sleep_and_are_tested(project):
    settings = ("engine=sleep", "mode=train", "protocol=fit", "epochs=3", f"batch_size={BATCH_SIZE}")
    measured = run(project, *settings, "device=cpu", "model=mlp")
    epochs = measured["epochs"]
    assert [epoch["num_samples"] for epoch in epochs] == [96] * 3
    seconds = 3 * STEP_S  # three batches of 32
    assert 0.5 < seconds / median(epoch["seconds"] for epoch in epochs) <= 1
    assert [epoch["evaluation"]["num_samples"] for epoch in epochs] == [64] * 3
    assert measured["evaluation"] == epochs[-1]["evaluation"]
    assert measured["num_test_samples"] == 64
