from dataclasses import replace

import pytest

from accelbench.judging.row import summarise
from accelbench.schema.cell import Definition
from accelbench.schema.measurement import SystemSeries
from fakes import make_trained

REACHED = make_trained(23.0, epochs=2)
FIXED = make_trained(23.0, epochs=2, target={"definition": Definition.fixed})


def test_the_time_to_the_hit_and_that_of_training_are_sums_of_one_log():
    row = summarise(REACHED)
    assert row["samples_per_s"] is None
    assert row["target_reached"] is True
    assert (row["target_s"], row["target_low_s"]) == (23.0, 12.25)
    assert row["target_train_s"] == pytest.approx(2 * 9.675)
    assert (row["target_mlperf_s"], row["target_airbench_s"]) == (None, None)
    assert (row["target_epochs"], row["target_samples"], row["target_tested"]) == (2, 6400, 0.968)
    assert "the time to the target may be up to 47 % shorter" in row["warnings"]


def test_energy_counts_to_the_hit_alone():
    """50 W above idle from the begin of the process, until the hit and beyond it."""
    t_s = [float(t) for t in range(35)]
    joules = [60.0 * t if t <= 23 else 1e6 for t in t_s]
    system = SystemSeries(started_boot_s=100.0, t_s=t_s, values={"cpu_energy_j": joules})
    record = replace(REACHED, system=system, environment={"idle_w": {"cpu_energy_j": 10.0}})
    assert summarise(record)["target_j"] == 50 * 23.0


NEVER = "accuracy at least 0.97 was not reached in 10 epochs: the best of 10 evaluations was 0.960"
MISSED = "the target was reached, but the next evaluation missed it, with 0.800"
INFINITE = "the loss or the metric was not finite after 10 epochs, so the training ended"


@pytest.mark.parametrize(
    ("record", "last", "stayed", "note"),
    [
        (make_trained(None), 0.96, True, NEVER),
        (make_trained(None), None, True, INFINITE),
        (REACHED, 0.98, True, None),
        (REACHED, 0.8, False, MISSED),
        (FIXED, 0.98, None, None),
    ],
)
def test_what_became_of_it_is_a_note(record, last, stayed, note):
    training = record.measurement.target
    evaluations = [*training.evaluations[:-1], replace(training.evaluations[-1], value=last)]
    training = replace(training, evaluations=evaluations, stayed=stayed)
    row = summarise(replace(record, measurement=replace(record.measurement, target=training)))
    assert row["notes"] == note
    is_reached = training.hit is not None
    assert (row["target_reached"], row["target_s"] is not None) == (is_reached, is_reached)
    assert (row["target_budget_s"] is None) == is_reached
