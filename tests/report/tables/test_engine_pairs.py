from dataclasses import replace
from pathlib import Path

import pytest

from accelbench.report.read import read as read_sweep
from accelbench.report.tables import best, engine_pairs
from accelbench.schema.cell import KerasSettings
from accelbench.schema.measurement import Epoch
from accelbench.schema.vocab import Engine, KerasBackend, Protocol, Status

PLAIN = KerasSettings()
JIT = KerasSettings(backend=KerasBackend.jax, jit_compile=True)


@pytest.fixture
def read(tmp_path: Path, maker):
    return lambda records: read_sweep(maker.suite(tmp_path, records))


def keras(maker, settings=PLAIN, **changes):
    return replace(maker.cell(**changes), engine=Engine.keras, keras=settings)


def rows(found):
    table = engine_pairs.table(found)
    return [dict(zip(table.headings, (entry.text for entry in row), strict=True)) for row in table.rows]


def test_cells_that_differ_in_nothing_but_the_engine_stand_side_by_side(read, maker) -> None:
    found = read([maker.ok(keras(maker), 800), maker.ok(maker.cell(), 1000), maker.ok(keras(maker, JIT), 2500)])
    assert [(row["first"], row["second"], row["second / first (x)"]) for row in rows(found)] == [
        ("lightning", "keras", "0.800"),
        ("lightning", "keras jax jit_compile", "2.50"),
    ]
    assert {row["how sure"] for row in rows(found)} == {"likely"}
    assert rows(found)[0]["first: low"] != "–"


def test_one_epoch_with_all_that_is_compiled_in_it_is_no_rate_to_compare(read, maker) -> None:
    fit = {"protocol": Protocol.fit, "mode": "train"}
    for num, shown in ((1, False), (3, True)):
        epochs = [Epoch(seconds=1.0, num_samples=1000)] * num
        found = read(
            [maker.ok(maker.cell(**fit), 1000, epochs=epochs), maker.ok(keras(maker, **fit), 800, epochs=epochs)]
        )
        assert (engine_pairs.table(found) is not None) == shown


def test_two_engines_are_never_mixed_in_what_is_said_of_batches(read, maker) -> None:
    def cell(batch_size, settings=None):
        made = maker.cell(mode="infer", batch_size=batch_size)
        return replace(made, engine=Engine.keras, keras=settings) if settings else made

    failed = maker.record(cell(64), Status.failed, reason="no")
    found = read([maker.ok(cell(1), 100), maker.ok(cell(8), 500), failed, maker.ok(cell(64, PLAIN), 9000)])
    fastest = best.table([found])
    assert dict(zip(fastest.headings, (entry.text for entry in fastest.rows[0]), strict=True))["options"] == "keras"


@pytest.mark.parametrize(
    "other",
    [{"precision": "bf16"}, {"batch_size": 64}, {"mode": "infer"}, {"seed": 1}, {"threads": 1}, {"device": "xla_cpu"}],
)
def test_cells_that_differ_in_anything_else_do_not(read, maker, other) -> None:
    found = read([maker.ok(maker.cell(), 1000), maker.ok(keras(maker, **other), 800)])
    assert engine_pairs.table(found) is None
    assert engine_pairs.ratios(found) == {}


def test_cells_on_other_data_or_another_machine_do_not(read, maker) -> None:
    lightning = maker.ok(maker.cell(), 1000)
    assert engine_pairs.table(read([lightning, maker.ok(keras(maker), 800, data=maker.stand_in)])) is None
    elsewhere = maker.record(
        *(keras(maker), Status.ok),
        measurement=maker.measurement(keras(maker), 800),
        data=lightning.data,
        environment={**lightning.environment, "machine": {"cpu_name": "Other"}},
    )
    assert engine_pairs.table(read([lightning, elsewhere])) is None


def test_what_is_not_ok_is_compared_with_nothing(read, maker) -> None:
    failed = maker.record(keras(maker), Status.failed, reason="raised")
    assert engine_pairs.table(read([maker.ok(maker.cell(), 1000), failed])) is None


def test_each_cell_tells_how_it_compares_with_the_first_engine_s(read, maker) -> None:
    lightning, other = maker.ok(maker.cell(), 1000), maker.ok(keras(maker), 800)
    found = engine_pairs.ratios(read([lightning, other]))
    assert found[lightning.name].text is None
    assert found[other.name].text == "0.800 x lightning's samples/s"
    assert found[lightning.name].pair == found[other.name].pair
