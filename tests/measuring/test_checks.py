"""Conclusions from outputs, products and weights. Only a proof is a defect."""

import math
import time
from itertools import count

import numpy as np
import pytest

from accelbench.measuring import checks
from accelbench.measuring.checks import Observations, ObservedOutput, Products, Training, compare, in_time
from accelbench.schema.cell import Precision

BATCH, FED = np.linspace(1.0, 2.0, 12).reshape(4, 3), np.linspace(-1.0, 0.5, 12).reshape(4, 3)
WEIGHTS = np.array([[1.0, -2.0], [0.5, 3.0], [2.0, 0.25]])
ROUNDS_BY = {Precision.bf16: 0.15, Precision.bf16_mixed: 0.15, Precision.fp64: 1e-4, Precision.fp32: 0.0}


def right(batch, seed=0):
    return [batch @ WEIGHTS]


def builds(function=right):
    """Returns a builder of networks that compute `function`, with the rounding of each precision."""

    def new_network(state, precision):
        factor = 1 + ROUNDS_BY[precision]
        return lambda batch, seed: [
            array * factor if array.dtype.kind == "f" else array for array in function(batch, seed)
        ]

    return new_network


def compared(output, new_network=None, precision=Precision.fp32, is_unseen=True, constant=False, of_fed=None):
    of_fed = right(FED) if of_fed is None else of_fed
    measured = ObservedOutput(BATCH, output, is_unseen, fed=FED, output_of_fed=of_fed)
    return compare(measured, new_network or builds(), precision, constant=constant)


def times(factor):
    return [array * factor for array in right(BATCH)]


def test_an_equal_output_is_compared_without_a_word():
    same = compared(right(BATCH))
    assert (same.error, same.notes, same.warnings, same.defects) == (0.0, [], [], [])
    assert same.is_compared
    assert compared(right(BATCH), is_unseen=False).notes == [checks.NOT_UNSEEN]


@pytest.mark.parametrize(
    ("factor", "precision", "kind"),
    [
        (1.0005, Precision.fp32, None),
        (1.05, Precision.bf16, None),
        (1.05, Precision.fp16_mixed, None),
        (1.4, Precision.bf16, "warnings"),  # rounding in bf16 is 15 % here
        (1.7, Precision.bf16, "defects"),
        (1.05, Precision.fp32, "defects"),
        (1.6, Precision.int8, "warnings"),  # no network on a CPU shows the rounding of int8: no proof
        (-1.0, Precision.tf32, "defects"),
    ],
)
def test_rounding_explains_as_much_as_a_new_network_in_that_precision_makes(factor, precision, kind):
    findings = compared(times(factor), precision=precision)
    assert findings.error == pytest.approx(abs(factor - 1))
    assert (len(findings.warnings), len(findings.defects)) == (int(kind == "warnings"), int(kind == "defects"))


CALLS = count(1)


UNSTEADY = {
    "draws": lambda batch, seed: [batch @ WEIGHTS + np.random.default_rng(seed).normal(size=(4, 2))],
    "reads a clock": lambda batch, seed: [batch @ WEIGHTS + time.perf_counter_ns() % 997],
    "keeps a state": lambda batch, seed: [batch @ WEIGHTS * next(CALLS)],
}


@pytest.mark.parametrize("function", UNSTEADY.values(), ids=UNSTEADY)
def test_what_does_not_agree_with_itself_is_not_compared(function):
    findings = compared(times(3.0), builds(function))
    assert (findings.error, findings.is_compared, findings.warnings, findings.defects) == (None, False, [], [])
    assert checks.UNSTEADY in findings.notes[0]


def test_places_that_are_not_finite_in_both_are_equal_and_in_one_are_not():
    def masked(batch, seed):
        return [np.where(batch > 1.5, np.nan, batch)]

    assert compared(masked(BATCH, 0), builds(masked)).error == 0.0
    (defect,) = compared([BATCH], builds(masked)).defects
    assert "differs by values that are finite in only one of the outputs" in defect


@pytest.mark.parametrize("output", [right(BATCH[:2]), [*right(BATCH), BATCH]])
def test_another_structure_is_not_compared(output):
    findings = compared(output)
    assert (findings.error, findings.defects, findings.warnings) == (None, [], [])
    assert "their structures differ" in findings.notes[0]


@pytest.mark.parametrize(("num_other", "is_right"), [(0, True), (1, True), (4, False)])
def test_of_whole_numbers_rounding_may_change_some(num_other, is_right):
    def classes(batch, seed):
        return [np.arange(4)]

    other = np.arange(4) + (np.arange(4) < num_other)
    assert (compared([other], builds(classes)).defects == []) is is_right


@pytest.mark.parametrize(
    ("error", "why"), [(ValueError("needs its device"), "ValueError: needs its device"), (None, "")]
)
def test_what_can_not_be_compared_has_a_reason(error, why):
    def new_network(state, precision):
        raise error

    findings = compared(right(BATCH), new_network) if error else compared([])
    assert (findings.error, findings.defects, findings.warnings) == (None, [], [])
    assert (why or checks.NO_TENSOR) in findings.notes[0]


def test_a_reference_that_takes_too_long_is_not_waited_for():
    def new_network(state, precision):
        return in_time(lambda: time.sleep(5), 0.05)

    assert checks.NOT_IN_TIME in compared(right(BATCH), new_network).notes[0]


@pytest.mark.parametrize("constant", [False, True])
def test_an_output_that_is_the_same_for_all_inputs_is_doubted_unless_the_user_says_so(constant):
    same = [np.ones((4, 2))]
    findings = compared(same, builds(lambda batch, seed: same), constant=constant, of_fed=same)
    assert findings.warnings == ([] if constant else [checks.CONSTANT])
    assert (findings.notes, findings.defects) == ([], [])


def test_a_new_network_gets_numbers_in_attributes_unless_it_fails_with_them():
    def new_network(state, precision):
        if state == "attributes":
            raise KeyError("a table that the first batch makes")
        return lambda batch, seed: right(batch)

    measured = ObservedOutput(BATCH, right(BATCH), state="attributes", plain_state="plain", fed=FED)
    assert compare(measured, new_network, Precision.fp32).error == 0.0


def test_tensors_are_compared_as_real_and_whole_numbers():
    assert checks.numbers_of(np.ones(3, np.complex64)).shape == (3, 2)
    assert checks.numbers_of(np.ones(3, np.float16)).dtype == np.float64
    assert checks.numbers_of(np.ones(3, bool)).dtype == bool
    assert checks.numbers_of(np.ones(3 * checks.MAX_NUMBERS, np.int8)).size <= checks.MAX_NUMBERS
    assert checks.difference(np.array([]), np.array([])) == 0.0
    assert checks.error_of([np.zeros(2)], [np.zeros(2)]) == 0.0


@pytest.mark.parametrize(
    ("flops", "asked", "ran_in", "coarser"),
    [
        ({"float32": 100}, "float32", "float32", 0),
        ({"bfloat16": 60, "float32": 40}, "float32", "bfloat16", 1),
        ({"bfloat16": 40, "float32": 60}, "float32", "float32", 1),
        ({"float32": 60, "bfloat16": 40}, "bfloat16", "bfloat16", 0),
        ({"float32": 1000, "bfloat16": 1}, "bfloat16", "float32", 0),
        ({}, "float32", None, 0),
    ],
)
def test_products_ran_as_asked_unless_most_is_coarser_or_next_to_none_is_so(flops, asked, ran_in, coarser):
    findings = Observations(products=Products(flops=flops))
    assert findings.products.ran_in(asked) == ran_in
    assert len(list(findings.warnings(asked))) == coarser


def trained(num_changed=0, **changes):
    """A training with four tensors of ten numbers each; the first ones have changed."""
    before = dict.fromkeys("abcd", 1.0)
    after = {name: 1.0 + (index < num_changed) for index, name in enumerate("abcd")}
    fields = {"names": "abcd", "before": before, "after": after, "sizes": dict.fromkeys("abcd", 10)}
    return Training(**fields | changes)


def test_a_training_that_changes_nothing_is_none():
    (defect,) = trained().defects()
    assert "no trainable weight changed in the measured steps" in defect


@pytest.mark.parametrize(
    ("num_changed", "changes", "expected"),
    [
        (4, {}, None),
        (0, {"is_coarse": True}, "rounding to 16 bits"),  # not a proof
        (0, {"vanished": True}, "all gradients are 0"),
        (3, {}, None),  # the loss may not use the tensor
        (1, {}, "these weights did not change during training: 3 of 4 tensors (b, c, d)"),
        (0, {"num_steps": 2, "cycle": 8}, "no weight changed in 2 steps: gradients may be accumulated over more"),
        (4, {"evaluating": ["norm"]}, "layers in evaluation mode during training: norm"),
        (4, {"after": dict.fromkeys("abcd", math.inf)}, "weights are not finite: 4 of 4 tensors"),
    ],
)
def test_less_than_that_is_a_warning(num_changed, changes, expected):
    training = trained(num_changed, **changes)
    texts = list(training.warnings())
    assert list(training.defects()) == []
    assert len(texts) == (expected is not None)
    assert expected is None or expected in texts[0]
