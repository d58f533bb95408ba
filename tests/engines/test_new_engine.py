"""A new engine needs only the files in tests/engines/sleep and a word in `cell.Engine`."""

import json
import shutil
from pathlib import Path
from statistics import median

from engines.cells import printed
from fakes import copy_package, make_project

FILES = Path(__file__).with_name("sleep")
WORD = ', "sleep"'
STEP_S = 0.010  # seconds that the engine sleeps for each batch
BATCH_SIZE = 32


def test_an_engine_of_sixty_lines_infers_and_trains_as_fast_as_it_sleeps(tmp_path, monkeypatch):
    root, first = make_project(tmp_path), '["pytorch", "lightning", "keras"'
    copy_package(root, "schema/cell.py", first, first + WORD)
    (root / "src/accelbench/engines/sleep").mkdir()
    shutil.copy(FILES / "engine.py", root / "src/accelbench/engines/sleep")
    shutil.copy(FILES / "sleep.yaml", root / "conf/engine")
    texts = [path.read_text() for path in FILES.iterdir() if path.is_file()]
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    assert len([*lines, WORD]) <= 60
    settings = ["engine=sleep", f"batch_size={BATCH_SIZE}", "device=cpu", "model=mlp"]
    monkeypatch.chdir(root)

    def measurement_of(*words):
        asked = printed("-m", "accelbench.cli", "plan", "--json", *settings, *words, PYTHONPATH="src")
        Path("cell.json").write_text("".join(asked))
        (outcome,) = map(json.loads, printed("-m", "accelbench.worker", "cell.json", "data/mnist", PYTHONPATH="src"))
        assert outcome["status"] == "ok", outcome
        return outcome["measurement"]

    measured, trained = measurement_of("mode=infer"), measurement_of("mode=train", "protocol=fit", "epochs=3")
    rate = median(block["num_samples"] / block["seconds"] for block in measured["blocks"])
    assert 0.25 * BATCH_SIZE / STEP_S < rate <= BATCH_SIZE / STEP_S  # on a busy machine a sleep takes longer
    assert STEP_S <= median(measured["launch_s"]) < 4 * STEP_S
    assert (measured["copy_in_s"], measured["copy_out_s"]) == ([], [])  # a CPU copies nothing
    assert len(measured["data_s"]) == len(measured["latency_s"]) > 0
    epochs = trained["epochs"]
    assert [(epoch["num_samples"], epoch["evaluation"]["num_samples"]) for epoch in epochs] == [(96, 64)] * 3
    assert 0.25 < 3 * STEP_S / median(epoch["seconds"] for epoch in epochs) <= 1  # three batches of 32
    assert trained["evaluation"] == epochs[-1]["evaluation"]
    assert trained["num_test_samples"] == 64
