import socket
import threading

import pytest

from accelbench.errors import UserError
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
    assert stage.by_job(["sweep", "mine"], lambda console, hosts: measured.append(console)) == 0
    monkeypatch.setenv(stage.VARIABLE, str(tmp_path / "gone"))
    assert stage.by_job(["sweep", "mine"], lambda console, hosts: measured.append(console)) == 0
    assert len(measured) == 2


@pytest.mark.parametrize(("answer", "status"), [(b"0\n", 0), (b"2\n", 2), (b"", 130)])
def test_a_job_measures_for_its_stages(job, answer, status):
    questions, measured = job(answer), []
    assert stage.by_job(["sweep", "mine"], lambda console, hosts: measured.append(console)) == status
    assert questions == ['["sweep", "mine"]\n']
    assert measured == []


def test_a_stage_measures_what_the_job_can_not(job, capsys):
    def refuse(console, hosts):
        raise UserError("this can't be measured")

    job(b"null\n")
    assert stage.by_job(["confirm"], refuse) == 2
    assert capsys.readouterr().err == "error: this can't be measured\n"


def test_an_unknown_stage_is_answered_with_the_choices(capsys):
    assert stage.main(["sweep"]) == 2
    assert capsys.readouterr().err.startswith("error: sweep: unknown stage. Choose from: run_suite, confirm,")
