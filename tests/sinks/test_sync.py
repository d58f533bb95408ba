import pytest

from accelbench.schema import record as records
from accelbench.sinks import sync as module
from accelbench.sinks.sync import sync
from tests.sinks.samples import record


@pytest.fixture
def delivered(monkeypatch):
    """The records that the store was given, without a store."""
    found = []
    monkeypatch.setattr(module, "_deliver", lambda root, records: found.extend(records) or len(records))
    return found


def test_unreadable_records_are_counted_and_named_with_their_reasons(tmp_path, delivered):
    good = records.write(record(), tmp_path / "runs")
    for number in range(8):
        good.with_name(f"{number:012x}-01d01d01.json").write_text('{"schema_version": 0}')
    gone = good.with_name(f"{9:012x}-01d01d01.json")
    gone.symlink_to(tmp_path / "nowhere")
    result = sync(tmp_path, [tmp_path / "runs"])
    assert [found.path.stem for found in delivered] == [record().name]
    counts, unreadable, *named, rest = str(result).splitlines()
    assert counts == "MLflow: 1 runs delivered, 0 already there."
    assert unreadable == "9 records can't be read and were not delivered:"
    assert len(named) == 5
    assert all("01d01d01.json" in line and "not a readable record" in line for line in named)
    assert rest == "  and 4 more"


def test_where_all_records_are_readable_nothing_is_said_of_unreadable_ones(tmp_path, delivered):
    records.write(record(), tmp_path / "runs")
    assert str(sync(tmp_path, [tmp_path / "runs"])) == "MLflow: 1 runs delivered, 0 already there."
