import socket
import threading

import pytest

from accelbench.stages import stage


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


def test_without_a_job_a_stage_measures_itself(monkeypatch, tmp_path):
    measured = []
    assert stage.run(["sweep", "mine"], measured.append) == 0
    monkeypatch.setenv(stage.VARIABLE, str(tmp_path / "gone"))
    assert stage.run(["sweep", "mine"], measured.append) == 0
    assert len(measured) == 2


@pytest.mark.parametrize(("answer", "status"), [(b"0\n", 0), (b"2\n", 2), (b"", 130)])
def test_a_job_measures_for_its_stages(job, answer, status):
    questions, measured = job(answer), []
    assert stage.run(["sweep", "mine"], measured.append) == status
    assert questions == ['["sweep", "mine"]\n']
    assert measured == []


def test_a_stage_measures_what_the_job_can_not(job):
    job(b"null\n")
    assert stage.run(["confirm"], lambda console: 2) == 2
