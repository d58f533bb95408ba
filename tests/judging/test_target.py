import pytest

from accelbench.judging.row import summarise
from accelbench.schema.cell import Definition, Mode, Protocol, Span, Target
from accelbench.schema.measurement import Evaluated, Logged, SystemSeries, TargetTraining
from fakes import make_cell, make_measurement, make_record

SPANS = [
    *((Span.start, 1.0), (Span.data, 2.0), (Span.build, 3.0), (Span.train, 13.0), (Span.evaluate, 14.0)),
    *((Span.train, 22.0), (Span.evaluate, 23.0), (Span.train, 31.0), (Span.evaluate, 32.0), (Span.test, 34.0)),
]


def made(values=(0.5, 0.9, 0.95), hit=1, stayed=True, target=None, **changes):
    """The record of three evaluations, each after an epoch of 100 samples; of the first span, 2 s are compilation."""
    begins = [0.0, *(end for _, end in SPANS)]
    log = [Logged(span=span, began_s=begins[i], ended_s=end) for i, (span, end) in enumerate(SPANS)]
    evaluations = []
    for num, value, at in zip((1, 2, 3), values, [each for each in log if each.span == Span.evaluate], strict=False):
        done = {"num_steps": 10 * num, "num_samples": 100 * num, "epochs": num, "value": value}
        evaluations.append(Evaluated(**done, began_s=at.began_s, ended_s=at.ended_s))
    kept = {"num_validation": 10, "deterministic": True, "compile_s": 2.0, "tested": 0.89}
    training = TargetTraining(log=log, evaluations=evaluations, hit=hit, stayed=stayed, **kept)
    cell = make_cell(mode=Mode.train, protocol=Protocol.target, epochs=3, target=target or Target(accuracy=0.9))
    measured = make_measurement(blocks=[], latency_s=[], target=training, steady_boot_s=(103.0, 134.0))
    return make_record(cell, measurement=measured, **changes)


def test_the_time_to_the_hit_and_that_of_training_are_sums_of_one_log():
    row = summarise(made())
    assert row["samples_per_s"] is None
    assert row["target_reached"] is True
    assert (row["target_s"], row["target_low_s"]) == (23.0, 14.0)
    assert row["target_train_s"] == 10.0 + 8.0
    assert (row["target_mlperf_s"], row["target_airbench_s"]) == (None, None)
    assert (row["target_epochs"], row["target_samples"], row["target_tested"]) == (2, 200, 0.89)
    assert row["target_budget_s"] is None
    assert "the time to the target may be up to 39 % shorter" in row["warnings"]
    assert row["notes"] is None


def test_energy_counts_to_the_hit_alone():
    """50 W above idle from the begin of the process, until the hit and beyond it."""
    t_s = [float(t) for t in range(35)]
    joules = [60.0 * t if t <= 23 else 1e6 for t in t_s]
    system = SystemSeries(started_boot_s=100.0, t_s=t_s, values={"cpu_energy_j": joules})
    assert summarise(made(system=system, environment={"idle_w": {"cpu_energy_j": 10.0}}))["target_j"] == 50 * 23.0


FIXED = Target(accuracy=0.9, definition=Definition.fixed)
NEVER = "accuracy at least 0.9 was not reached in 3 epochs: the best of 3 evaluations was 0.720"
MISSED = "the target was reached, but the next evaluation missed it, with 0.800"


@pytest.mark.parametrize(
    ("values", "hit", "changes", "note"),
    [
        ((0.5, 0.72, 0.7), None, {}, NEVER),
        ((0.95, 0.9), 0, {}, None),
        ((0.5, 0.9, 0.8), 1, {"stayed": False}, MISSED),
        ((0.5, None), None, {}, "the loss or the metric was not finite after 2 epochs, so the training ended"),
        ((0.95,), 0, {"stayed": None, "target": FIXED}, None),
    ],
)
def test_what_became_of_it_is_a_note(values, hit, changes, note):
    row = summarise(made(values, hit, **changes))
    assert row["notes"] == note
    assert (
        (row["target_s"] is not None) == (row["target_budget_s"] is None) == row["target_reached"] == (hit is not None)
    )
