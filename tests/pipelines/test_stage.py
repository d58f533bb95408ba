import importlib
import socket
import threading
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "pipelines"


@pytest.fixture
def stage(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    return importlib.import_module("stage")


@pytest.fixture
def job(stage, tmp_path, monkeypatch):
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


def test_without_a_job_a_stage_measures_itself(stage, monkeypatch, tmp_path):
    measured = []
    assert stage.run(["sweep", "mine"], measured.append) == 0
    monkeypatch.setenv(stage.VARIABLE, str(tmp_path / "gone"))
    assert stage.run(["sweep", "mine"], measured.append) == 0
    assert len(measured) == 2


@pytest.mark.parametrize(("answer", "status"), [(b"0\n", 0), (b"2\n", 2), (b"", 130)])
def test_a_job_measures_for_its_stages(stage, job, answer, status):
    questions, measured = job(answer), []
    assert stage.run(["sweep", "mine"], measured.append) == status
    assert questions == ['["sweep", "mine"]\n']
    assert measured == []


def test_a_stage_measures_what_the_job_can_not(stage, job):
    job(b"null\n")
    assert stage.run(["confirm"], lambda console: 2) == 2
