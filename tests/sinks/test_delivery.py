import contextlib
import os
import sqlite3
from pathlib import Path
from unittest.mock import Mock

import pytest

from accelbench.errors import UserError
from accelbench.sinks import delivery as module
from accelbench.sinks import location
from accelbench.sinks.location import one_line
from tests.sinks.samples import processes, record
from tests.sinks.stores import deliver, opened


@pytest.mark.parametrize(("refused", "num_sent"), [((), 5), ((2,), 5), ((2, 3), 1)])
def test_after_a_failure_the_rest_is_sent_at_the_end_of_the_sweep(monkeypatch, refused, num_sent):
    sent, numbers, store = [], iter(range(1, 99)), Mock()

    def send(record, *, is_confirming):
        if (number := next(numbers)) in refused:
            raise RuntimeError(f"no room for number {number}\nand more")
        sent.append(record)

    store.deliver = send
    monkeypatch.setattr(module, "open_store", lambda root: store)
    made = [record(number=number) for number in range(5)]
    delivery = deliver(Path(), *made)
    delivery.finish(processes(*made))
    assert (sent, store.relate.called) == (made[:num_sent], num_sent == 5)
    lost = "MLflow lacks runs (no room for number 3 and more): `accelbench sync` delivers them."
    assert delivery.loss() == ("" if num_sent == 5 else lost)


def test_a_store_that_does_not_open_is_asked_once(monkeypatch):
    monkeypatch.setattr(module, "open_store", asked := Mock(side_effect=ConnectionError("refused")))
    delivery = opened(Path())
    delivery.add(record())
    delivery.finish()
    assert (delivery.problem, asked.call_count) == ("refused", 1)


def test_what_a_server_says_is_safe_to_print_and_shows_no_password():
    assert one_line(RuntimeError("\n\x1b[31mred\x07\u202e")) == r"\x1b[31mred\x07\u202e"
    long = "x" * 285  # a password is masked before the text is cut
    assert one_line(RuntimeError(f"{long}http://me:s3cret@host")) == f"{long}http://me:***@…"


def test_a_store_that_another_program_writes_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(location, "PATIENCE_S", 0.1)
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError, match="mlflow.db: not usable .database is locked"), location.locked(tmp_path):
            pytest.fail("it is not writable")


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41", os.fsdecode(b"caf\xe9")])
def test_a_folder_that_no_address_of_a_database_can_name_is_refused_and_stays_empty(name, tmp_path):
    (tmp_path / name).mkdir()
    told = "name another store with MLFLOW_TRACKING_URI"
    with pytest.raises(UserError, match=told), location.locked(tmp_path / name):
        pytest.fail("MLflow would use another file")
    assert not any((tmp_path / name).iterdir())


def test_links_hold_no_credentials(tmp_path, monkeypatch):
    assert location.is_own(tmp_path)
    for uri, page in (
        ("https://me:s3cret@host:80/mlflow", "https://host:80/mlflow"),
        *(("https://token@host", "https://host"), ("http://[::1", "http://[::1")),
        ("postgresql://me:s3cret@host/db", None),
    ):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        assert (location.tracking_uri(tmp_path), location.is_own(tmp_path)) == (uri, False)
        assert location.server_uri(tmp_path) == page
