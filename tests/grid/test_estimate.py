"""How long cells will take, by records of cells that took a given time."""

from dataclasses import replace

import pytest

from accelbench.grid import plan
from accelbench.grid.plan import COMPILED_S, FIXED_S, START_S, Evidence, Length, lengths, read_evidence
from accelbench.schema import record as records
from accelbench.schema.cell import Mode, Options, Precision, Protocol, Server, Window
from accelbench.schema.measurement import SystemSeries
from fakes import make_cell, make_record, refuse_listing

MACHINE = {"cpu_name": "a CPU", "num_threads": 2}
STEPS = make_cell(protocol=Protocol.steps, steps=100)


def finished(cell, took_s, at_s=0, machine=MACHINE):
    """The record of a cell that was asked for `at_s` after nine, and waited 8 s for its host."""
    system = SystemSeries(started_boot_s=60.0, t_s=[0.0, took_s])
    when = {"wall_s": 8.0 + took_s, "started_at": f"2026-11-20T09:00:{at_s:02}+00:00"}
    return make_record(cell, environment={"machine": machine}, system=system, **when)


def seconds(evidence, cell):
    length = evidence.length(cell)
    return None if length.num_unknown else pytest.approx(length.seconds)


@pytest.mark.parametrize("cell", [make_cell(), STEPS, make_cell(protocol=Protocol.fit, mode=Mode.train)])
def test_a_cell_takes_as_long_as_last_time_else_as_with_another_batch(cell):
    evidence = Evidence([finished(cell, 40.0, at_s=9), finished(cell, 30.0)])
    assert seconds(evidence, cell) == seconds(evidence, replace(cell, seed=1)) == 40.0
    larger = replace(cell, batch_size=2 * cell.batch_size)
    assert seconds(evidence, larger) == 40.0
    evidence.add(finished(larger, 50.0))
    assert (seconds(evidence, cell), seconds(evidence, larger)) == (40.0, 50.0)


def test_without_a_record_a_cell_takes_its_windows_and_epochs_and_steps_are_unknown():
    window = Window(warmup_s=0.5, measure_s=2.0, latency_s=1.0)
    cell = make_cell(window=window, breakdown_s=0.5)
    evidence = Evidence([finished(STEPS, 30.0)])
    for other in (cell, replace(cell, precision=Precision.bf16)):
        assert seconds(evidence, other) == FIXED_S + 4.0
    assert seconds(evidence, replace(cell, budget_s=1.0)) == FIXED_S + 1.0
    assert seconds(evidence, replace(cell, options=Options(compile=True))) == FIXED_S + 4.0 + COMPILED_S
    served = make_cell(protocol=Protocol.server, server=Server(duration_s=30))
    assert seconds(evidence, served) == FIXED_S + 30.0
    generated = replace(cell, mode=Mode.generate)
    for other in (replace(STEPS, threads=1), make_cell(protocol=Protocol.fit, mode=Mode.train), generated):
        assert evidence.length(other) == Length(0.0, 1)
    assert seconds(evidence, make_cell(timeout_s=0.5)) == 0.5
    assert str(Length(40.0) + Length(0.0, 3)) == "about 40 s and 3 of unknown length"
    # The first cell of a host waits for its start.
    assert lengths([STEPS, replace(STEPS, seed=1)], evidence) == [Length(30.0 + START_S), Length(30.0)]
    assert lengths([STEPS], evidence, started=[replace(STEPS, batch_size=8)]) == [Length(30.0)]


def test_the_records_of_a_project_are_read_but_not_those_of_another_machine(tmp_path, monkeypatch):
    elsewhere = finished(STEPS, 20.0, at_s=9, machine={"cpu_name": "another"})
    for number, record in enumerate([finished(STEPS, 30.0), elsewhere]):
        records.write(record, tmp_path / ("runs", "results")[number] / "a")
    for number, text in enumerate(["{", "[]", "{}", '{"cell_id": 3, "wall_s": 1}']):
        (tmp_path / "runs" / "a" / f"{number:012}-00000000.json").write_text(text)
    (tmp_path / "runs" / "a" / f"{4:012}-00000000.json").symlink_to("lost")  # as DVC's, if its cache lost the file
    for machine, took_s in ((MACHINE, 30.0), ({"cpu_name": "another"}, 20.0), ({"cpu_name": "a third"}, None)):
        monkeypatch.setattr(plan, "fingerprint", lambda engine, machine=machine: {"machine": machine})
        assert seconds(read_evidence(tmp_path), STEPS) == took_s
    refuse_listing(monkeypatch, tmp_path / "results/a")
    monkeypatch.setattr(plan, "fingerprint", lambda engine: {"machine": MACHINE})
    assert seconds(read_evidence(tmp_path), STEPS) == 30.0
