import contextlib
import os
import sqlite3

import pytest

from accelbench.errors import UserError
from accelbench.sinks import location


def test_a_store_that_another_program_writes_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(location, "PATIENCE_S", 0.1)
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError, match="mlflow.db: not usable .database is locked"), location.locked(tmp_path):
            pytest.fail("it is not writable")


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41", os.fsdecode(b"caf\xe9")])
def test_a_folder_that_no_address_of_a_database_can_name_is_refused_and_stays_empty(name, tmp_path):
    (tmp_path / name).mkdir()
    with (
        pytest.raises(UserError, match="name another store with MLFLOW_TRACKING_URI"),
        location.locked(tmp_path / name),
    ):
        pytest.fail("MLflow would use another file")
    assert not any((tmp_path / name).iterdir())


@pytest.mark.parametrize(
    ("uri", "page"),
    [
        ("https://me:s3cret@host:80/mlflow", "https://host:80/mlflow"),
        ("https://token@host", "https://host"),
        ("http://[::1", "http://[::1"),
        ("postgresql://me:s3cret@host/db", None),
    ],
)
def test_links_hold_no_credentials(uri, page, tmp_path, monkeypatch):
    assert location.is_own(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert (location.tracking_uri(tmp_path), location.is_own(tmp_path)) == (uri, False)
    assert location.server_uri(tmp_path) == page
