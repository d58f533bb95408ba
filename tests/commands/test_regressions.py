"""The former command `accelbench regressions` compares two git revisions."""

import dataclasses

from accelbench.cli import main
from accelbench.schema import record as records
from tests.sinks.samples import ENVIRONMENT, cell, record

BEFORE, AFTER = "1111111aaa", "2222222bbb"


def test_a_cell_that_is_slower_fails_the_command_which_names_the_present_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for position in range(16):
        is_after = position % 2
        made = record(dataclasses.replace(cell(), repeat=position), number=position)
        factor = (1.3 if is_after else 1.0) * (1 + position % 3 / 200)
        blocks = [dataclasses.replace(each, seconds=each.seconds * factor) for each in made.measurement.blocks]
        git = {"revision": AFTER if is_after else BEFORE, "dirty": False, "branch": "main"}
        changes = {
            "started_at": f"2026-11-20T09:00:{position:02}.000+00:00",
            "measurement": dataclasses.replace(made.measurement, blocks=blocks),
            "environment": ENVIRONMENT | {"git": git},
        }
        records.write(dataclasses.replace(made, **changes), tmp_path / "runs" / "ci")
    assert main(["regressions", "runs/ci@1111111..2222222"]) == 1
    said = capsys.readouterr().out
    assert "type accelbench compare runs/ci@1111111 runs/ci@2222222 --fail-if slower:0%" in said
    assert "cnn-cpu-fp32-b128-train" in said
    assert main(["regressions", "runs/ci@1111111"]) == 2
    for path in sorted((tmp_path / "runs" / "ci").glob("*.json"))[:8]:
        path.unlink()
    assert main(["regressions", "runs/ci@1111111..2222222"]) == 2  # undecided: too few processes, as `compare` says
