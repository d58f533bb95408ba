import pytest

from accelbench.answers.cells import Process, cells_of
from accelbench.answers.time_to_goal import target_answers
from accelbench.schema.cell import Definition, Precision, Status
from fakes import make_cell, make_trained

BF16 = {"precision": Precision.bf16_mixed}
FAST = [11.4, 12.9, 11.9, 12.3, 11.1, 12.6, 11.7, 12.1, 12.8, 11.6]
SLOW = [seconds * 1.3 for seconds in FAST]
LATER = "2026-11-21T09:00:00.000+00:00"
FIXED = {"target": {"definition": Definition.fixed}, "epochs": 10}


def runs(times, **changes):
    return [make_trained(seconds, seed=seed, **changes) for seed, seconds in enumerate(times)]


def answered(*records):
    return target_answers(cells_of(map(Process.of, records)))


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (runs(FAST), runs(SLOW, **BF16), "seeds), 1.30 times as fast as PyTorch bf16_mixed b32 (1.23 to 1.37; sure)."),
        (runs(FAST), runs(FAST, **BF16), "32 (0.949 to 1.05; can't tell)."),
        (runs(FAST), runs(FAST, **BF16), "10 of 10 seeds), maybe not faster than "),
        # the lower median, but most pairs of runs contradict it
        (runs([10.0] * 11 + [30.0] * 9), runs([5.0, 10.1] * 10, **BF16), "in most pairs of runs not faster than "),
        (runs([12.0] * 6), runs([12.0] * 6, **BF16), "(1.00 to 1.00; same)."),
        (runs(FAST[:5]), runs(SLOW[:5], **BF16), "fp32 b32: 11.9 s (5 of 5 seeds), 1.30 times as fast as"),
        (runs(FAST[:5]), runs(SLOW[:5], **BF16), "; likely: fewer than 6 seeds)."),
        (runs(FAST[:2]), runs([20.0, 21.0], **BF16), "(can't tell: too few seeds for an interval)."),
        (runs(FAST[:3]), runs([20.0, 21.0, 22.0], **BF16), "(likely: too few seeds for an interval)."),
        (runs(FAST, **BF16), runs(SLOW, batch_size=64), "bf16_mixed b32: 12.1 s (11.4 to 12.8, 10 of 10 seeds)"),
        (runs(FAST), runs(SLOW, started_at=LATER, **BF16), "likely: they were not interleaved)."),
        (runs([*FAST[:9], None]), runs(SLOW, **BF16), "likely: fewer of its seeds arrive)."),
        (runs([None] * 6), [], "none reached it: PyTorch fp32 b32 (0 of 6 seeds)."),
        (runs([*FAST[:4], None, None]), [], "fp32 b32: 12.9 s (at least 11.4, 4 of 6 seeds)."),
        (runs(FAST, value=0.971, **FIXED), [], "(fixed length, epochs=10): PyTorch fp32 b32: 12.1 s (11.4 to 12.8, 10"),
        (runs(FAST[:1], **FIXED), [], "does not count: it is not sure that the mean of its seeds' last evaluations"),
    ],
)
def test_the_sentence_says_which_is_the_fastest_and_how_sure_that_is(first, second, said):
    (answer,) = answered(*first, *second)
    assert answer.sentence.startswith("mlp on mnist to accuracy at least 0.97 (")
    assert said in answer.sentence


@pytest.mark.parametrize(
    ("later", "said", "doubt"),
    [
        ({"seed": 10, "planned_in": "b"}, "11 of 11 seeds, 1 added later), 1.3", "likely: seeds were added later"),
        ({"seed": 10, "status": Status.oom}, "10 of 11 seeds, 1 failed), 1.29", "likely: fewer of its seeds arrive"),
        ({"seed": 3, "started_at": "2026-11-22T09:00:00.000+00:00"}, "10 of 10 seeds), 1.3", "sure"),
        ({"seed": 10, "status": Status.skipped}, "10 of 10 seeds), 1.3", "sure"),
    ],
)
def test_a_later_seed_is_marked_a_failed_one_is_no_arrival_and_a_second_run_of_a_seed_is_not_chosen(later, said, doubt):
    seeds = [*runs(FAST, planned_in="a"), make_trained(12.0 if later["seed"] == 10 else 0.1, **later)]
    (answer,) = answered(*seeds, *runs(SLOW, planned_in="a", **BF16))
    assert said in answer.sentence
    assert answer.sentence.endswith(f"; {doubt}).")


def test_seeds_that_are_planned_and_not_measured_leave_nothing_sure():
    records = [*runs(FAST), *runs(SLOW[:9], **BF16)]
    cell = make_trained(12.0, seed=9, **BF16).cell
    missing = Process(cell=cell, name=f"{cell.id}-00000000", label="", record=None)
    (answer,) = target_answers(cells_of([*map(Process.of, records), missing]))
    assert answer.settings[1].arrived_text == "9 of 9 seeds, 1 not measured"
    assert answer.leads[0].text.endswith("likely: not all planned seeds are measured)")


def test_workloads_are_told_apart_and_learning_rates_are_settings_of_one():
    cell = make_cell()
    other = runs(FAST[:2], target={"every": 0.5})
    rates = runs(SLOW[:2], model=type(cell.model)(name="mlp", learning_rate=0.01))
    first, second = answered(*runs(FAST[:2]), *other, *rates)
    assert [each.name for each in first.settings] == ["PyTorch fp32 b32 lr 0.001", "PyTorch fp32 b32 lr 0.01"]
    assert (first.what.endswith("target.every=1.0"), second.what.endswith("target.every=0.5")) == (True, True)
