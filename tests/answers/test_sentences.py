import dataclasses

from accelbench.answers.reference import Limit
from accelbench.answers.sentences import verdict_text
from accelbench.schema.cell import Window
from accelbench.schema.measurement import Block, Data
from accelbench.schema.vocab import Library, Protocol
from accelbench.schema.workload import DataSpec, ModelSpec


def of_model(cells, model):
    return [dataclasses.replace(cell, model=model) for cell in cells]


def test_the_sentence_says_what_is_fastest_by_how_much_and_how_sure(answered, maker) -> None:
    cells = [maker.cell(precision=word, batch_size=size) for word in ("fp32", "bf16", "fp16") for size in (32, 128)]
    (found,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, (80, 100, 300, 400, 50, 60), strict=True)])
    assert (found.what, found.data) == ("mlp, training", "mnist")
    assert found.sentence == (
        "bf16, batch 128 is fastest here, 400 samples/s, median step 432 ms; "
        "4.00 times as fast as fp32, batch 128 (likely)."
    )
    first, second, third = found.shown
    assert (found.group.text(first), verdict_text(found.group, first)) == ("bf16, batch 128", "4.00 times, likely")
    assert (found.group.text(second), verdict_text(found.group, second)) == ("fp32, batch 128", "reference")
    assert found.group.text(third) == "fp16, batch 128"
    (bert,) = of_model([maker.cell()], ModelSpec(name="bert", library=Library.transformers))
    own = dataclasses.replace(maker.cell(), data=DataSpec(name="module"))  # nobody knows whether these are images
    (fed,) = of_model([maker.cell()], ModelSpec(name="Net", library=Library.custom, batch="my.make_batch"))
    found = answered([maker.ok(cell, 100) for cell in (bert, own, fed)])
    assert all("100 samples/s" in each.sentence for each in found)
    assert {each.data for each in found} == {"mnist", "module", "own batches (make_batch)"}


def test_near_speeds_of_single_processes_cant_be_told_apart(answered, maker) -> None:
    cells = [maker.cell(precision=precision) for precision in ("fp32", "bf16")]
    (answer,) = answered([maker.ok(cell, rate) for cell, rate in zip(cells, (1000, 1010), strict=True)])
    assert "bf16, batch 128 measured fastest, 1,010 samples/s" in answer.sentence
    assert "1.01 times as fast as fp32, batch 128, but can't tell: the intervals overlap." in answer.sentence
    few = [Block(num_steps=1, num_samples=128, seconds=1.0)]
    (answer,) = answered([maker.ok(cell, 1000, blocks=few) for cell in cells])
    assert "can't tell: too few blocks for an interval" in answer.sentence


def test_interleaved_processes_decide(answered, maker) -> None:
    (answer,) = answered(maker.interleaved({"fp32": 1000, "bf16": 2000}, growth=0.001))
    assert answer.sentence.endswith("2.00 times as fast as fp32, batch 128 (sure).")
    (answer,) = answered(maker.interleaved({"fp32": 1000, "bf16": 1001}))
    assert answer.sentence.startswith("bf16, batch 128 and fp32, batch 128 are equally fast, 1,000 samples/s")
    assert verdict_text(answer.group, answer.fastest) == "1.00 times, same"
    records = maker.interleaved({"fp32": 900, "bf16": 1000})
    for at, rate in ((5, 1010), (7, 300), (9, 300)):  # of bf16
        records[at] = maker.at(maker.ok(records[at].cell, rate), at)
    (answer,) = answered(records)
    assert "fp32, batch 128 measured fastest, 900 samples/s" in answer.sentence
    assert "times as fast as bf16, batch 128, but can't tell: " in answer.sentence


def test_a_single_setting_is_no_choice_and_a_limit_is_a_part_of_the_answer(answered, maker) -> None:
    (answer,) = answered([maker.ok(maker.cell(), 1000)])
    gives = "fp32, batch 128 gives 1,000 samples/s, median step 173 ms."
    assert answer.sentence == f"{gives} Nothing else was measured to compare it with."
    assert answer.lead is None
    within = dataclasses.replace(answer, limit=Limit(200.0))
    assert within.sentence == f"{gives} No other setting with this batch is known to be within 200 ms."


def test_answers_of_one_name_say_what_tells_them_apart(answered, maker) -> None:
    def told(records):
        return [answer.data for answer in answered(records)]

    cells = [maker.cell(protocol=Protocol.steps, steps=steps) for steps in (32, 512)]
    assert told([maker.ok(cell, 1) for cell in cells]) == ["mnist steps, steps=32", "mnist steps, steps=512"]
    made = [maker.ok(maker.cell(window=Window(measure_s=seconds)), 1) for seconds in (0.2, 1.0)]
    assert told(made) == ["mnist, window.measure_s=0.2", "mnist, window.measure_s=1.0"]
    assert told(made[:1]) == ["mnist"]
    here = maker.ok(maker.cell(), 1)
    there = dataclasses.replace(here, environment={"machine": {"cpu_name": "Other CPU"}}, identity="2" * 64)
    assert told([here, there]) == ["mnist, Example CPU @ 2.0 GHz", "mnist, Other CPU"]
    machine = {"cpu_name": "Other CPU", "gpus": ["NVIDIA A", "NVIDIA A"]}
    rented = dataclasses.replace(here, environment={"machine": machine}, identity="3" * 64)
    assert told([there, rented]) == ["mnist, Other CPU", "mnist, Other CPU + NVIDIA A"]
    images = Data(name="mnist", digest="f" * 64, source="other images", stand_in=False)
    later = dataclasses.replace(maker.ok(maker.cell(), 1, data=images), started_at="2026-11-21T18:00:00+00:00")
    assert told([here, later]) == ["mnist"]  # the earlier one is older
