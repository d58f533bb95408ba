import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from accelbench.answers.cells import Process
from accelbench.answers.comparison import RecordSet, Terms, answer, compared, find, match, terms
from accelbench.errors import UserError
from accelbench.schema import record
from accelbench.schema.cell import Engine, KerasSettings, ModelSpec, Precision, Status
from answers.conftest import process
from fakes import make_cell, make_record, write_plan_of
from report.conftest import MNIST, STAND_IN

MACHINE = {"cpu_name": "AMD EPYC", "num_threads": 2}
HERE = {"machine": MACHINE, "versions": {"torch": "2.9.0"}, "variables": {}, "code": "c" * 64}
THERE = {**HERE, "machine": {**MACHINE, "cpu_name": "Intel"}, "code": "d" * 64}
SPREAD = (0.99, 1.0, 1.01, 0.995, 1.005)


def processes(speed=1000.0, num=5, environment=HERE, **changes):
    """Processes whose speeds scatter by a per cent, measured one an hour."""
    rates = [speed * SPREAD[repeat % 5] for repeat in range(num)]
    return [process(rate, 60 * i, environment=environment, repeat=i, **changes) for i, rate in enumerate(rates)]


def records(*args, **changes):
    return RecordSet(name="runs/x", processes=processes(*args, **changes))


def both(*sets):
    return RecordSet(name="both", processes=[process for one in sets for process in one.processes])


def half_an_hour_later(side):
    moved = (replace(one.record, started_at=one.started_at.replace(":00:00", ":30:00")) for one in side.processes)
    return replace(side, processes=[Process.of(record) for record in moved])


def answered(first, second, **judged):
    """The exit status, and what is printed. The second side is measured half an hour after the first."""
    console = Console(file=io.StringIO(), width=80)
    status = answer(first, half_an_hour_later(second), Terms(**judged), console)
    return status, console.file.getvalue()


@pytest.mark.parametrize(
    ("speed", "margin", "shown", "conclusion"),
    [
        (1000.0, 0.02, r"same +\+0.0 % \(-1.", "B is as fast as A, within 2 %"),
        (1100.0, 0.02, r"faster +\+10.0 % \(\+", "B is faster than A"),
        (900.0, 0.02, r"slower +-10.0 % \(-1", "B is slower than A"),
        (1004.0, 0.005, r"can't tell \+0.4 % \(-0.", "Can't tell which is faster"),
    ],
)
def test_the_answer_is_a_word_and_the_interval(speed, margin, shown, conclusion):
    status, text = answered(records(), records(speed), margin=margin)
    assert re.search(rf"^mlp-cpu-fp32-b32-infer +{shown}.*, 5 and 5 processes$", text, re.MULTILINE)
    assert (status, text.splitlines()[-1]) == (0, conclusion)
    fine = records(batch_size=8)  # a pair that is too slow for sure is the exit status
    assert answered(both(records(), fine), both(records(speed), fine), max_slower=0.05)[0] == (speed == 900.0)
    assert answered(records(), records(speed), max_slower=0.2)[0] == 0


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"variables": {"OMP_PROC_BIND": "1"}}, "variables.OMP_PROC_BIND: none | 1"),
        ({"code": "d" * 64}, f"code.pytorch: {'c' * 12} | {'d' * 12}"),
        ({"machine": {**MACHINE, "cpu_name": "Intel"}}, "machine.cpu_name: AMD EPYC | Intel"),
    ],
)
def test_a_different_environment_is_named(changes, name):
    there = records(environment={**HERE, **changes})
    assert f"The environment differs: {name}" in answered(records(), there)[1]
    keras = records(environment={**HERE, "code": "d" * 64}, engine=Engine.keras, keras=KerasSettings())
    for first, second in ((there, there), (records(), keras)):  # engines have each a code of their own
        assert "environment" not in answered(first, second)[1]


def test_sides_of_several_machines_or_with_common_records_are_refused():
    mixed = both(records(), records(environment={**THERE, "code": "c" * 64}))
    with pytest.raises(UserError, match=r"both: records of several machines \(machine.cpu_name: AMD EPYC, Intel\)"):
        answered(records(), mixed)
    with pytest.raises(UserError, match="runs/x and both have 5 records in common: name two"):
        answer(records(), both(records(), records(batch_size=8)), Terms(), Console(file=io.StringIO()))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"data": MNIST}, "mnist (a stand-in) eeeeeeee | mnist dddddddd"),
        ({"data": STAND_IN, "model": replace(make_cell().model, name="cnn")}, "model.name: mlp | cnn"),
    ],
)
def test_what_is_not_the_same_thing_is_refused_unless_it_was_asked_for(other, named):
    sides = (records(data=STAND_IN), records(**other))
    with pytest.raises(UserError, match="did not measure the same thing: .*; add --anyway to compare them") as raised:
        answered(*sides)
    assert named in str(raised.value)
    assert re.search(f"Not the same thing: .*{re.escape(named)}", answered(*sides, anyway=True)[1])


def late(speed=900.0, **changes):
    return RecordSet(name="late", processes=processes(speed, num=10, **changes)[5:])


def test_sides_that_did_not_take_turns_cannot_be_told_apart():
    assert "nterleaved" not in answered(records(), records(900.0))[1]
    assert "can't tell 5 and 0 processes; it takes 5 a side\n" in answered(records(), records(status=Status.failed))[1]
    text = answered(records(), late())[1]
    assert "Not interleaved: 1 of 1 pairs" in text
    assert re.search(r" can't tell -10.0 % \(.*\), 5 and 5 processes, not interleaved", text)
    status, text = answered(records(), late(), max_slower=0.05, anyway=True)
    assert re.search(r" slower +-10.0 % \(.*\), 5 and 5 processes\n", text)
    assert status == 1
    assert " slower " in answered(records(), late(environment=THERE))[1]  # two machines take no turns


@pytest.mark.parametrize(
    ("sides", "limit"),
    [
        ((records(num=1), records(900.0, num=1)), 0.05),
        ((records(), late()), 0.05),
        ((records(), late(1000.0)), 0.05),
        ((records(), records(900.0)), 0.1),
        ((records(status=Status.skipped), records(status=Status.skipped)), 0.05),
    ],
)
def test_a_gate_that_cannot_decide_is_a_mistake_that_names_what_it_takes(sides, limit):
    words = f"slower:{100 * limit:g}%: undecided. An interval contains -{100 * limit:g} %"
    with pytest.raises(UserError, match=words):
        answered(*sides, max_slower=limit)
    assert answered(*sides, max_slower=limit, may_pass_undecided=True)[0] == 0
    both_ways = [both(side, records(speed, batch_size=8)) for side, speed in zip(sides, (1000.0, 800.0), strict=True)]
    assert answered(*both_ways, max_slower=0.05)[0] == 1  # another pair is slower for sure


def test_the_terms_are_read_as_they_are_written():
    assert terms(None, None, anyway=False) == Terms()
    assert terms("1.5%", "slower:5%", anyway=True) == Terms(margin=0.015, max_slower=0.05, anyway=True)
    wrong = [(None, text) for text in ("slower", "slower:5", "faster:5%", "slower:-5%", "slower:100%", "")]
    for margin, fail_if in [*wrong, *((text, None) for text in ("2", "x%", "-1%", ""))]:
        with pytest.raises(UserError, match=r"below 100%, such as (slower:)?5%"):
            terms(margin, fail_if, anyway=False)


def test_the_more_pairs_there_are_the_wider_is_the_interval_of_each():
    def interval(*sizes):
        first, second = (both(*(records(rate, batch_size=size) for size in sizes)) for rate in (1000.0, 1100.0))
        (_, ratio), *_ = compared(first, half_an_hour_later(second), anyway=True).pairs
        return ratio.low, ratio.high

    (low, high), (lowest, highest) = interval(8), interval(8, 16, 32)
    assert lowest < low < high < highest


def test_cells_that_are_equal_but_for_the_repeat_are_a_pair():
    first = processes(batch_size=8) + processes(batch_size=16)
    second = processes(batch_size=16, num=6) + processes(batch_size=32) + processes(batch_size=8)
    pairs, varied, num_unpaired = match(first, second)
    assert [one.label for one in pairs] == ["mlp-cpu-fp32-b8-infer", "mlp-cpu-fp32-b16-infer"]
    assert (varied, num_unpaired, len(pairs[1].second)) == ({}, 1, 6)
    assert match(processes(suite="one"), processes(suite="two", timeout_s=5.0))[1] == {}
    models = [ModelSpec(name="mlp", args={"units": units}) for units in (8, 9)]
    sides = [process for model in models for process in processes(model=model)]  # of one label
    assert [one.label.rpartition("-")[2] for one in match(sides, sides)[0]] == ["units=8", "units=9"]
    # A setting in which the sides differ throughout is what is compared.
    pairs, varied, num_unpaired = match(first, processes(batch_size=8, precision=Precision.bf16))
    assert (varied, num_unpaired) == ({"precision": "fp32 | bf16"}, 1)
    assert [one.label for one in pairs] == ["mlp-cpu-bf16-b8-infer"]
    _, varied, _ = match(processes(), processes(model=ModelSpec(name="cnn", args={"width": 3}), batch_size=64))
    assert set(varied) == {"model.name", "model.args.width", "batch_size"}
    assert varied["model.args.width"] == "none | 3"
    several = "differ in batch_size, but A or B has several values itself: mlp-cpu-fp32-b8.* and mlp-cpu-fp32-b16"
    with pytest.raises(UserError, match=several):
        match(first, processes(batch_size=32))
    first = processes(batch_size=8) + processes(batch_size=16, seed=1)
    with pytest.raises(UserError, match=r"no cell of A matches a cell of B. A has mlp-cpu-fp32-b16-infer-s1, mlp-"):
        match(first, processes(batch_size=16) + processes(batch_size=8, seed=1))


OLD = {"machine": MACHINE, "git": {"revision": "abc1" * 10, "branch": "main"}}
NETS = Path("results/nets")  # of the project
NEW = {"machine": MACHINE, "git": {"revision": "def2" * 10, "branch": "faster"}}


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Writes a record into a suite of a project, as a sweep leaves it, a minute after the one before it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text("suites: {}\n")

    def put(repeat, environment=OLD, suite="nets", **changes):
        started_at = f"2026-11-20T09:0{repeat}:00+00:00"
        made = make_record(make_cell(repeat=repeat), environment=environment, started_at=started_at, **changes)
        record.write(made, NETS.with_name(suite))
        return made

    return put


def repeats(records):
    return sorted(process.cell.repeat for process in records.processes)


def test_a_name_is_a_folder_of_records_a_suite_a_records_file_or_all_of_a_revision(put):
    put(0)
    write_plan_of(NETS, [made := put(1, NEW)])
    for repeat in (2, 3):
        put(repeat, NEW, "more")
    found = {"nets": [1], "results/nets": [1], f"results/nets/{made.name}.json": [1]}  # what its plan wants
    found |= {"more": [2, 3], "results": [1, 2, 3]}  # without a plan, all
    found |= {f"{name}@abc1abc1": [0] for name in ("nets", "", "results/nets")}  # of all that was ever measured
    found |= {f"{name}@{word}": [1] for name in ("nets", "results/nets") for word in ("def2", "faster")}
    found["@faster"] = [1, 2, 3]
    assert {name: repeats(find(name)) for name in found} == found
    assert not any(find(name).notes for name in found)


def test_of_several_versions_of_the_code_those_of_the_last_one_count(put):
    for repeat, word in enumerate("aabb"):
        put(repeat, {**OLD, "files": {"model.target": word}})
    for name in ("nets", "nets@main"):
        records = find(name)
        assert repeats(records) == [2, 3]
        assert records.notes == ["2 processes left out because of older code, weights, data or packages"]


def test_records_that_are_not_readable_are_named(put):
    put(0)
    old = put(8)
    (NETS / f"{old.name}.json").write_text(json.dumps({**old.to_json(), "schema_version": 2}))
    (NETS / f"{'f' * 12}-{'0' * 8}.json").write_text("{")
    assert len(find("nets@abc1").notes) == 2
    named = "no record has this git revision or branch\n  results/nets/.*schema 2.*\n  results/nets/f+-0+.json: not a"
    with pytest.raises(UserError, match=named):
        find("nets@9999")
