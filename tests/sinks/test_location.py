import threading

from accelbench.sinks import location


def test_the_store_is_the_projects_unless_the_environment_names_another(tmp_path, monkeypatch):
    monkeypatch.delenv("DVC_ROOT", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert location.tracking_uri(tmp_path) == f"sqlite:///{tmp_path.resolve()}/mlflow.db"
    assert location.is_own(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://example:5000")
    assert location.tracking_uri(tmp_path) == "http://example:5000"
    assert not location.is_own(tmp_path)


def test_a_second_writer_waits_in_silence_until_the_first_is_done(tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("DVC_ROOT", raising=False)
    has_lock = threading.Event()

    def write():
        with location.locked(tmp_path):
            has_lock.set()

    second = threading.Thread(target=write)
    with location.locked(tmp_path):
        second.start()
        assert not has_lock.wait(0.2)
    assert has_lock.wait(10)
    second.join()
    assert capfd.readouterr() == ("", "")
