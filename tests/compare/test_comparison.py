import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from accelbench.compare.comparison import Terms, answer, compared, terms
from accelbench.compare.record_sets import RecordSet
from accelbench.errors import UserError
from accelbench.schema.cell import KerasSettings
from accelbench.schema.measurement import Data
from accelbench.schema.vocab import Engine, Mode, Status
from compare.conftest import process
from fakes import make_cell

MACHINE = {"cpu_name": "AMD EPYC", "num_threads": 2}
HERE = {"machine": MACHINE, "versions": {"torch": "2.9.0"}, "variables": {}, "code": "c" * 64}
THERE = {**HERE, "machine": {**MACHINE, "cpu_name": "Intel"}, "code": "d" * 64}
SPREAD = (0.99, 1.0, 1.01, 0.995, 1.005)
DIGITS = Data(name="mnist", digest="1" * 64, source="digits", stand_in=True)
REAL = Data(name="mnist", digest="2" * 64, source="MNIST", stand_in=False)


def records(speed=1000.0, num=5, environment=HERE, **changes):
    """Processes whose speeds scatter by a per cent, measured one an hour."""
    made = [
        process(speed * SPREAD[repeat % 5], 60 * repeat, environment=environment, repeat=repeat, **changes)
        for repeat in range(num)
    ]
    return RecordSet(name="runs/x", processes=made)


def both(*sets):
    return RecordSet(name="both", processes=[process for one in sets for process in one.processes])


def answered(first, second, **judged):
    """The exit status, and what is printed. The second side is measured half an hour after the first."""
    later = [replace(one, started_at=one.started_at.replace(":00:00", ":30:00")) for one in second.processes]
    console = Console(file=io.StringIO(), width=80)
    status = answer(first, replace(second, processes=later), Terms(**judged), console)
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
        ({"versions": {"torch": "2.10.0"}}, "versions.torch: 2.9.0 | 2.10.0"),
        ({"code": "d" * 64}, f"code.pytorch: {'c' * 12} | {'d' * 12}"),
        ({"variables": {"OMP_PROC_BIND": "1"}}, "variables.OMP_PROC_BIND: none | 1"),
    ],
)
def test_a_different_environment_is_named(changes, name):
    there = {**HERE, **changes}
    assert f"The environment differs: {name}" in answered(records(), records(environment=there))[1]
    assert "environment" not in answered(records(environment=there), records(environment=there))[1]
    keras = records(environment={**HERE, "code": "d" * 64}, engine=Engine.keras, keras=KerasSettings())
    assert "environment" not in answered(records(), keras)[1]  # engines have each a code of their own
    text = answered(records(), records(environment=THERE))[1]
    assert "The environment differs: machine.cpu_name: AMD EPYC | Intel" in text
    assert "The environment differs: code.pytorch" in text


def test_sides_of_several_machines_or_with_common_records_are_refused():
    mixed = both(records(), records(environment={**THERE, "code": "c" * 64}))
    with pytest.raises(UserError, match=r"both: records of several machines \(machine.cpu_name: AMD EPYC, Intel\)"):
        answered(records(), mixed)
    with pytest.raises(UserError, match="runs/x and both have 5 records in common: name two"):
        answer(records(), both(records(), records(batch_size=8)), Terms(), Console(file=io.StringIO()))


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"data": REAL}, "mnist (a stand-in) 11111111 | mnist 22222222"),
        ({"data": DIGITS, "mode": Mode.train}, "mode: infer | train"),
        ({"data": DIGITS, "model": replace(make_cell().model, name="cnn")}, "model.name: mlp | cnn"),
    ],
)
def test_what_is_not_the_same_thing_is_refused_unless_it_was_asked_for(other, named):
    with pytest.raises(
        UserError, match="A and B did not measure the same thing: .*; add --anyway to compare them"
    ) as raised:
        answered(records(data=DIGITS), records(**other))
    assert named in str(raised.value)
    text = answered(records(data=DIGITS), records(**other), anyway=True)[1]
    assert re.search(f"Not the same thing: .*{re.escape(named)}", text)


def test_sides_that_did_not_take_turns_cannot_be_told_apart():
    second = records(900.0, num=10)
    late = RecordSet(name="late", processes=second.processes[5:])
    assert "nterleaved" not in answered(records(), second)[1]
    assert "can't tell 5 and 0 processes; it takes 5 a side\n" in answered(records(), records(status=Status.failed))[1]
    text = answered(records(), late)[1]
    assert "Not interleaved: 1 of 1 pairs" in text
    assert re.search(r" can't tell -10.0 % \(.*\), 5 and 5 processes, not interleaved", text)
    status, text = answered(records(), late, max_slower=0.05, anyway=True)
    assert re.search(r" slower +-10.0 % \(.*\), 5 and 5 processes\n", text)
    assert status == 1
    elsewhere = RecordSet(name="late", processes=records(900.0, num=10, environment=THERE).processes[5:])
    assert " slower " in answered(records(), elsewhere)[1]  # two machines take no turns


@pytest.mark.parametrize(
    ("sides", "limit"),
    [
        ((records(num=1), records(900.0, num=1)), 0.05),
        ((records(), records(status=Status.failed)), 0.05),
        ((records(), RecordSet(name="late", processes=records(900.0, num=10).processes[5:])), 0.05),
        ((records(), records(900.0)), 0.1),
        ((records(status=Status.skipped), records(status=Status.skipped)), 0.05),
    ],
)
def test_a_gate_that_cannot_decide_is_a_mistake_that_names_what_it_takes(sides, limit):
    with pytest.raises(UserError) as raised:
        answered(*sides, max_slower=limit)
    words = f"slower:{100 * limit:g}%: undecided. An interval contains -{100 * limit:g} %"
    assert words in str(raised.value)
    assert answered(*sides, max_slower=limit, may_pass_undecided=True)[0] == 0
    assert answered(*sides)[0] == 0
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
        first = both(*(records(1000.0, batch_size=size) for size in sizes))
        second = both(*(records(1100.0, batch_size=size) for size in sizes))
        later = [replace(one, started_at=one.started_at.replace(":00:00", ":30:00")) for one in second.processes]
        (_, ratio), *_ = compared(first, replace(second, processes=later), anyway=True).pairs
        return ratio.low, ratio.high

    (low, high), (lowest, highest) = interval(8), interval(8, 16, 32)
    assert lowest < low < high < highest
