import dataclasses

from accelbench.answers import reference as best
from accelbench.answers.reference import Limit, groups
from accelbench.judging.row import MEASURED
from accelbench.schema.vocab import Mode, Pipeline
from accelbench.schema.workload import DataSpec

FAST, QUICK, MIDDLE, BEATEN = (1000, 0.05), (200, 0.002), (500, 0.01), (400, 0.02)


def speeds(found):
    return [round(each.speed) for each in found]


def test_the_best_is_by_what_is_wanted(cells, maker):
    def chosen(*figures):
        """A group with a cell for each (samples/s, seconds of a step), by batch size from 1."""
        made = [maker.cell(mode=Mode.infer, batch_size=i) for i, _ in enumerate(figures, 1)]
        steps = [[step_s] * 700 for _, step_s in figures]
        rates = [rate for rate, _ in figures]
        each = zip(made, rates, steps, strict=True)
        (group,) = groups(cells([maker.ok(cell, rate, latency_s=step) for cell, rate, step in each]))
        return group

    group = chosen(BEATEN, MIDDLE, QUICK, FAST)
    told = [(round(cell.speed), criteria) for _, cell, criteria in best.choices(group)]
    assert told == [(1000, "throughput"), (200, "latency")]
    within = chosen(BEATEN, MIDDLE, FAST).within  # a limit of latency, in ms
    assert (speeds(within(Limit(10)).cells), within(Limit(1))) == ([500], None)
    assert {column for column, _ in best.CRITERIA.values()} <= set(MEASURED)


def test_cells_that_did_different_things_are_not_chosen_between(cells, maker):
    def random(side, pipeline, batch_size, rate):
        data = DataSpec(name="random", pipeline=pipeline)
        cell = maker.cell("resnet18", mode=Mode.infer, data=data, batch_size=batch_size)
        model = dataclasses.replace(cell.model, input_shape=(3, side, side))
        return maker.ok(dataclasses.replace(cell, model=model), rate)

    shapes = [(224, Pipeline.host, 8, 50.0), (224, Pipeline.host, 16, 60.0), (224, Pipeline.device, 16, 70.0)]
    made = [random(*each) for each in [*shapes, (32, Pipeline.host, 16, 900.0)]]
    assert {(group.what, round(group.fastest.speed)) for group in groups(cells(made))} == {
        ("resnet18 infer, random 3x224x224 host", 60),
        ("resnet18 infer, random 3x224x224 device", 70),
        ("resnet18 infer, random 3x32x32 host", 900),
    }
