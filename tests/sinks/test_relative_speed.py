import dataclasses

import pytest

from accelbench.schema.vocab import Precision, Status
from accelbench.sinks.relative_speed import relative_speeds
from tests.sinks.samples import STAND_IN, cell, record, resnet18


def test_a_record_is_compared_with_those_that_did_the_same():
    fp32, bf16 = record(cell()), record(cell(precision=Precision.bf16), number=1)
    alone = [record(cell("mlp"), number=2), record(cell(), data=STAND_IN, number=3)]
    failed = record(cell(batch_size=1), Status.failed, number=4)
    found = relative_speeds([fp32, bf16, *alone, failed])
    assert [each.record for each in found] == [fp32, bf16]
    assert max(each.share for each in found) == 1.0
    assert len({each.fastest.name for each in found}) == 1
    (slower,) = [each for each in found if each.share < 1]
    assert slower.record == fp32
    assert slower.share == pytest.approx(1 / 1.7, rel=0.1)  # as the samples are made


def test_it_is_sure_where_five_processes_of_each_ran_in_turns():
    both = [cell(repeat=repeat, precision=word) for repeat in range(5) for word in (Precision.fp32, Precision.bf16)]
    found = relative_speeds(record(each, number=number) for number, each in enumerate(both))
    by_precision = {each.record.cell.precision: each for each in found}
    slower = min(found, key=lambda each: each.share).record.cell.precision
    assert len(found) == 10
    assert by_precision[slower].verdict.endswith("slower, sure")
    assert by_precision[slower].command is None
    assert {each.verdict for each in found if each.record.cell.precision != slower} == {"fastest"}


def test_one_process_of_each_is_never_sure_and_names_the_command_that_may_decide():
    found = relative_speeds(record(resnet18(Precision(word)), number=i) for i, word in enumerate(("fp32", "bf16")))
    (slower,) = [each for each in found if each.share < 1]
    assert slower.verdict.rpartition(", ")[2] in ("likely", "can't tell")
    assert slower.command is not None
    assert slower.command.startswith("accelbench compare --run ")
    assert "precision=bf16" in slower.command


def test_machines_are_not_compared():
    here, there = record(resnet18(Precision.fp32)), record(resnet18(Precision.bf16), number=1)
    there = dataclasses.replace(there, environment={"machine": {"cpu_name": "another one"}})
    assert relative_speeds([here, there]) == []


def test_the_median_process_stands_for_a_cell():
    cells = [cell(repeat=repeat) for repeat in range(3)]
    processes = [record(each, number=number) for number, each in enumerate(cells)]
    other = record(cell(precision=Precision.bf16_mixed), number=9)
    found = relative_speeds([*processes, other])
    assert {each.fastest.name for each in found} == {other.name}
    own = relative_speeds(processes)
    shares = sorted(each.share for each in own)
    assert shares[0] < shares[1] == 1 < shares[2]
    assert {each.verdict for each in own} == {"fastest"}
