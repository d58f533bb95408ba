import json
import os
import subprocess
import sys

import pytest

from accelbench import worker
from accelbench.schema.cell import Mode
from accelbench.schema.serialize import plain
from fakes import TESTS, make_cell, make_project


@pytest.fixture
def run_alone(tmp_path):
    """Runs `python -m accelbench.worker`, or another command, on a cell. Returns the process and its answer."""
    project = make_project(tmp_path / "project")

    def run_alone(start, **changes):
        path = tmp_path / "cell.json"
        path.write_text(json.dumps(plain(make_cell(**changes))))
        words = [*start, str(path), str(project / "data" / "mnist")]
        environment = {**os.environ, "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=200)
        return done, json.loads(done.stdout) if done.stdout else None

    return run_alone


FAKED = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from accelbench import worker
from accelbench.schema.serialize import plain
import fakes
worker.host_spec = fakes.faulty_host
sys.exit(worker.main(sys.argv[1:]))
"""


def test_a_mistake_in_the_cells_settings_is_exit_status_2(run_alone):
    done, outcome = run_alone((sys.executable, "-c", FAKED), fault="mistake")
    assert (done.returncode, outcome["status"], outcome["user_error"]) == (2, "failed", True), done.stderr
    assert outcome["reason"].startswith("model.args: ")


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.mark.slow
def test_of_two_ranks_under_torchrun_the_first_answers(run_alone, tmp_path):
    (tmp_path / "faked.py").write_text(FAKED)
    done, outcome = run_alone((*TORCHRUN, str(tmp_path / "faked.py")), mode=Mode.train, devices=2)
    assert (done.returncode, outcome["status"]) == (0, "ok"), done.stderr[-2000:]
    assert outcome["measurement"]["num_devices"] == 2


@pytest.mark.parametrize(
    ("cell", "folder", "words"),
    [
        ([1], ".", "no readable cell"),
        ({"schema_version": 99, "cell": {}}, ".", "it has schema 99; this accelbench reads schema "),
    ],
)
def test_what_is_no_cell_or_no_data_set_is_a_mistake(tmp_path, capsys, cell, folder, words):
    (tmp_path / "cell.json").write_text(json.dumps(cell))
    with pytest.raises(SystemExit) as ended:
        worker.parse([str(tmp_path / "cell.json"), str(tmp_path / folder)])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
