import dataclasses

from accelbench.schema.vocab import Precision, Status
from tests.sinks.samples import STAND_IN, cell, record, relations, resnet18


def test_a_record_is_compared_with_those_that_did_the_same():
    fp32, bf16 = record(cell()), record(cell(precision=Precision.bf16), number=1)
    alone = [record(cell("mlp"), number=2), record(cell(), data=STAND_IN, number=3)]
    failed = record(cell(batch_size=1), Status.failed, number=4)
    found = relations([fp32, bf16, *alone, failed])
    assert {each.record.name for each in found} == {fp32.name, bf16.name}
    assert {each.fastest.name for each in found} == {bf16.name}
    slower, fastest = sorted(found, key=lambda each: each.share)
    assert (fastest.share, fastest.verdict, fastest.command) == (1.0, "fastest", None)
    assert slower.share == slower.cell.speed / fastest.cell.speed
    assert slower.verdict.startswith(f"{slower.share:.3f} times as fast, ")


def test_it_is_sure_where_five_processes_of_each_were_interleaved():
    both = [cell(repeat=repeat, precision=word) for repeat in range(5) for word in (Precision.fp32, Precision.bf16)]
    found = relations([record(each, number=number) for number, each in enumerate(both)])
    assert len(found) == 10
    assert max(each.share for each in found) == 1
    slower = [each for each in found if each.share < 1]
    assert len({(each.share, each.verdict, each.command) for each in slower}) == 1
    assert slower[0].verdict.endswith("times as fast, sure")
    assert slower[0].command is None


def test_one_process_of_each_is_never_sure_and_names_the_command_that_may_decide():
    found = relations([record(resnet18(Precision(word)), number=i) for i, word in enumerate(("fp32", "bf16"))])
    (slower,) = [each for each in found if each.share < 1]
    assert slower.verdict.rpartition(", ")[2] in ("likely", "can't tell")
    assert slower.command.startswith("accelbench compare --run ")
    assert "precision=bf16" in slower.command


def test_machines_are_not_compared():
    here, there = record(resnet18(Precision.fp32)), record(resnet18(Precision.bf16), number=1)
    there = dataclasses.replace(there, environment={"machine": {"cpu_name": "another one"}})
    assert relations([here, there]) == []
