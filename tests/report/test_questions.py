import pytest

from accelbench.answers.ranking import answers
from accelbench.judging.costs import Cost
from accelbench.report.questions import questions
from accelbench.schema.measurement import Work
from accelbench.schema.vocab import Device, Mode
from report.pictures.samples import working


@pytest.fixture
def asked(read):
    def asked(records, costs=None):
        sweep = read(records, costs=costs)
        return {question.title: question for question in questions([sweep], answers(sweep.cells))}

    return asked


def test_each_question_has_a_sentence_with_its_figures(asked, maker) -> None:
    cells = [maker.cell(model, precision=word) for model in ("mlp", "cnn") for word in ("fp32", "bf16")]
    found = asked([maker.ok(cell, rate) for cell, rate in zip(cells, (100, 300, 100, 50), strict=True)])
    precision = found["Which precision?"]
    assert precision.sentence == "bf16: 1.75 times as fast as fp32 in the median of 2 pairs (0.500 to 3.00)."
    assert [picture.path for picture in precision.pictures] == ["plots/question_precision.png"]
    assert precision.table is not None
    assert len(precision.table.rows) == 2
    assert found["How sure is it?"].sentence.startswith("Which setting is fastest: of 2 answers, 2 likely.")
    assert "Which device?" not in found
    assert "What does it cost?" not in found


def test_values_on_several_devices_are_told_apart(asked, maker) -> None:
    cells = [maker.cell(device=device, precision=word) for device in ("cpu", "gpu") for word in ("fp32", "bf16")]
    found = asked([maker.ok(cell, rate) for cell, rate in zip(cells, (100, 50, 1000, 3000), strict=True)])
    text = found["Which precision?"].sentence
    assert "bf16 on the cpu: 0.500 times as fast as fp32 (mlp train b128; likely)." in text
    assert "bf16 on the gpu: 3.00 times as fast as fp32 (mlp train b128 gpu; likely)." in text
    assert "gpu: 35.0 times as fast as the CPU in the median of 2 pairs" in found["Which device?"].sentence


def test_each_batch_is_compared_with_the_smallest_which_is_named(asked, maker) -> None:
    found = asked([maker.ok(maker.cell(batch_size=size), rate) for size, rate in ((8, 100), (32, 250))])
    text = found["Which batch size?"].sentence
    assert text == "batch 32: 2.50 times as fast as batch 8 (mlp train; likely)."


def test_several_batches_have_lines(asked, maker) -> None:
    cells = [maker.cell(batch_size=size, precision=word) for size in (8, 32) for word in ("fp32", "bf16")]
    found = asked([maker.ok(cell, rate) for cell, rate in zip(cells, (100, 200, 250, 400), strict=True)])
    assert [picture.path for picture in found["Which batch size?"].pictures] == ["plots/question_batch.png"]
    assert "Speed or latency?" not in found  # nobody waits for a step of training


def test_speed_and_latency_are_weighed_in_inference(asked, maker) -> None:
    cells = [maker.cell(batch_size=size, mode=Mode.infer) for size in (8, 32)]
    found = asked([maker.ok(cell, rate) for cell, rate in zip(cells, (100, 200), strict=True)])
    text = found["Speed or latency?"].sentence
    assert text.startswith("In 0 of 1 network one setting has both the most samples/s and the shortest step.")
    assert "200 samples/s in steps of 21" in text
    assert text.endswith("(fp32, batch 8).")
    assert found["Speed or latency?"].table is not None


def test_the_cost_is_that_of_the_cheapest_cell(asked, maker) -> None:
    cells = [maker.cell(), maker.cell(device="gpu")]
    records = [maker.ok(cell, rate) for cell, rate in zip(cells, (100, 200), strict=True)]
    prices = {Device.cpu: Cost(price_per_hour=0.36), Device.gpu: Cost(price_per_hour=3.6)}
    assert asked(records, prices)["What does it cost?"].sentence.startswith("A million samples cost 1.00 at")


def test_a_cell_above_the_probed_peak_is_named_and_no_share_of_it(asked, maker) -> None:
    records = [working(maker, "mlp"), working(maker, "cnn", work=Work(flops=10**12, bytes=10**6, num_operators=9))]
    limit = asked(records)["How near to the limit?"].sentence
    assert limit.startswith("The fastest cells reach 50 % of the operations")
    assert limit.endswith("Not drawn, since it ran faster than the probe: cnn-cpu-fp32-b128-infer.")


def test_nothing_measured_asks_nothing(asked, maker) -> None:
    assert asked([maker.ok(maker.cell(), 100)]) == {}
