import socket
import subprocess
import sys
import threading

import pytest

from accelbench.errors import UserError
from accelbench.stages import stage, work
from test_architecture import HEAVY


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job that answers one stage; `questions` holds what it was asked."""
    questions = []

    def listening(answer):
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(tmp_path / "job"))
        server.listen()
        monkeypatch.setenv(stage.VARIABLE, str(tmp_path / "job"))

        def serve():
            asking, _ = server.accept()
            with asking, server:
                questions.append(asking.makefile().readline())
                asking.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return questions

    return listening


@pytest.fixture
def measured(monkeypatch):
    """What the stage measured itself; it ends with no parent of the tests."""
    found = []
    monkeypatch.setattr(stage, "end_with_parent", lambda: None)
    monkeypatch.setattr(work, "run_suite", lambda console, name: found.append(name))
    return found


def test_without_a_job_a_stage_measures_itself(monkeypatch, tmp_path, measured):
    assert stage.main(["run_suite", "mine"]) == 0
    monkeypatch.setenv(stage.VARIABLE, str(tmp_path / "gone"))
    assert stage.main(["run_suite", "mine"]) == 0
    assert measured == ["mine"] * 2


@pytest.mark.parametrize(("answer", "status"), [(b"0\n", 0), (b"2\n", 2), (b"", 130)])
def test_a_job_measures_for_its_stages(job, measured, answer, status):
    questions = job(answer)
    assert stage.main(["run_suite", "mine"]) == status
    assert questions == ['["sweep", "mine"]\n']
    assert measured == []


def test_a_stage_measures_what_the_job_can_not(job, measured, monkeypatch, capsys):
    def refuse(console):
        raise UserError("this can't be measured")

    monkeypatch.setattr(work, "confirm", refuse)
    job(b"null\n")
    assert stage.main(["confirm"]) == 2
    assert capsys.readouterr().err == "error: this can't be measured\n"


def test_stages_that_prepare_import_nothing_that_measures():
    code = "import sys, accelbench.stages.inputs; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rooms = ("engines", "measuring", "isolation", "sweep", "grid", "report", "stages.work")
    assert not {*HEAVY, *(f"accelbench.{room}" for room in rooms)} & set(loaded)
