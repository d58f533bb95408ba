import json
import os
import subprocess
import sys

import pytest

from accelbench import worker
from accelbench.schema.cell import Mode
from accelbench.schema.serialize import plain
from fakes import TESTS, make_cell, make_project

FAKED = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from accelbench import worker
import fakes
worker.host_spec = fakes.faulty_host
sys.exit(worker.main(sys.argv[1:]))
"""
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def run_alone(folder, start, **changes):
    """Runs a script like `python -m accelbench.worker` on a cell. Returns its exit status and its answer."""
    project = make_project(folder / "project")
    (folder / "faked.py").write_text(FAKED)
    (folder / "cell.json").write_text(json.dumps(plain(make_cell(**changes))))
    words = [*start, str(folder / "faked.py"), str(folder / "cell.json"), str(project / "data" / "mnist")]
    environment = {**os.environ, "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=200)
    return done.returncode, json.loads(done.stdout)


def test_a_mistake_in_the_cells_settings_is_exit_status_2(tmp_path):
    status, outcome = run_alone(tmp_path, (sys.executable,), fault="mistake")
    assert (status, outcome["status"], outcome["user_error"]) == (2, "failed", True)
    assert outcome["reason"].startswith("model.args: ")


@pytest.mark.slow
def test_of_two_ranks_under_torchrun_the_first_answers(tmp_path):
    status, outcome = run_alone(tmp_path, TORCHRUN, mode=Mode.train, devices=2)
    assert (status, outcome["status"], outcome["measurement"]["num_devices"]) == (0, "ok", 2)


def test_what_is_no_cell_is_a_mistake(tmp_path, capsys):
    for text, words in (("[1]", "no readable cell"), ('{"schema_version": 99, "cell": {}}', "it has schema 99; this ")):
        (tmp_path / "cell.json").write_text(text)
        with pytest.raises(SystemExit, match="2"):
            worker.parse([str(tmp_path / "cell.json"), str(tmp_path)])
        assert words in capsys.readouterr().err
