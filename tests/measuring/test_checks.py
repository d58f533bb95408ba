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
CALLS = count(1)


def right(batch, seed=0):
    return [batch @ WEIGHTS]


def times(factor):
    return [array * factor for array in right(BATCH)]


def masked(batch, seed):
    return [np.where(batch > 1.5, np.nan, batch)]


def same(batch, seed):
    return [np.ones((4, 2))]


def classes(batch=None, seed=0, num=0):
    """Four whole numbers, `num` of which are others."""
    return [np.arange(4) + (np.arange(4) < num)]


def fails(state, precision):
    raise ValueError("needs its device")


def hangs(state, precision):
    return in_time(lambda: time.sleep(5), 0.05)


def fails_with_attributes(state, precision):
    return right if state == "plain" else fails(state, precision)


UNSTEADY = [
    lambda batch, seed: [batch @ WEIGHTS + np.random.default_rng(seed).normal(size=(4, 2))],
    lambda batch, seed: [batch @ WEIGHTS + time.perf_counter_ns() % 997],
    lambda batch, seed: [batch @ WEIGHTS * next(CALLS)],
]


def compared(output, function=right, precision=Precision.fp32, new_network=None, is_unseen=True, constant=False):
    """Compares with networks that compute `function`, with the rounding of each precision."""

    def rounding(state, precision):
        factor = 1 + ROUNDS_BY[precision]
        scaled = lambda array: array * factor if array.dtype.kind == "f" else array  # noqa: E731
        return lambda batch, seed: [scaled(array) for array in function(batch, seed)]

    states = {"state": "attributes", "plain_state": "plain"}
    of_fed = same(FED, 0) if function is same else right(FED)
    measured = ObservedOutput(BATCH, output, is_unseen, fed=FED, output_of_fed=of_fed, **states)
    return compare(measured, new_network or rounding, precision, constant=constant)


@pytest.mark.parametrize(
    ("output", "how", "error", "kind", "text"),
    [
        (right(BATCH), {}, 0.0, "", ""),
        (right(BATCH), {"is_unseen": False}, 0.0, "notes", checks.NOT_UNSEEN),
        # Rounding explains as much as a new network in that precision makes.
        (times(1.0005), {}, 0.0005, "", ""),
        (times(1.05), {"precision": Precision.bf16}, 0.05, "", ""),
        (times(1.05), {"precision": Precision.fp16_mixed}, 0.05, "", ""),
        (times(1.4), {"precision": Precision.bf16}, 0.4, "warnings", ""),  # rounding in bf16 is 15 % here
        (times(1.7), {"precision": Precision.bf16}, 0.7, "defects", ""),
        (times(1.05), {}, 0.05, "defects", ""),
        # No network on a CPU shows the rounding of int8: no proof.
        (times(1.6), {"precision": Precision.int8}, 0.6, "warnings", ""),
        (times(-1.0), {"precision": Precision.tf32}, 2.0, "defects", ""),
        # What does not agree with itself, or can't be compared, has a reason.
        *((times(3.0), {"function": function}, None, "notes", checks.UNSTEADY) for function in UNSTEADY),
        (right(BATCH[:2]), {}, None, "notes", "their structures differ"),
        ([*right(BATCH), BATCH], {}, None, "notes", "their structures differ"),
        ([], {}, None, "notes", checks.NO_TENSOR),
        (right(BATCH), {"new_network": fails}, None, "notes", "ValueError: needs its device"),
        (right(BATCH), {"new_network": hangs}, None, "notes", checks.NOT_IN_TIME),
        # A new network gets numbers in attributes, unless it fails with them.
        (right(BATCH), {"new_network": fails_with_attributes}, 0.0, "", ""),
        # Places that are not finite in both are equal, and in one are not.
        (masked(BATCH, 0), {"function": masked}, 0.0, "", ""),
        ([BATCH], {"function": masked}, None, "defects", "values that are finite in only one of the outputs"),
        # Of whole numbers, rounding may change some.
        (classes(num=0), {"function": classes}, 0.0, "", ""),
        (classes(num=1), {"function": classes}, 0.0, "", ""),
        (classes(num=4), {"function": classes}, 1.0, "defects", ""),
        # An output that is the same for all inputs is doubted unless the user says so.
        (same(BATCH, 0), {"function": same}, 0.0, "warnings", checks.CONSTANT),
        (same(BATCH, 0), {"function": same, "constant": True}, 0.0, "", ""),
    ],
)
def test_a_difference_from_a_new_networks_output_is_a_note_a_doubt_or_a_defect(output, how, error, kind, text):
    findings = compared(output, **how)
    texts = {name: getattr(findings, name) for name in ("notes", "warnings", "defects")}
    assert findings.error == (error if error is None else pytest.approx(error))
    assert findings.is_compared == (error is not None or kind == "defects")
    assert {name: len(found) for name, found in texts.items() if found} == ({kind: 1} if kind else {})
    assert not kind or text in texts[kind][0]


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


@pytest.mark.parametrize(
    ("num_changed", "changes", "defect", "warning"),
    [
        (0, {}, "no trainable weight changed in the measured steps", None),
        # Less than that is a warning.
        (4, {}, None, None),
        (0, {"is_coarse": True}, None, "rounding to 16 bits"),  # not a proof
        (0, {"vanished": True}, None, "all gradients are 0"),
        (3, {}, None, None),  # the loss may not use the tensor
        (1, {}, None, "these weights did not change during training: 3 of 4 tensors (b, c, d)"),
        (0, {"num_steps": 2, "cycle": 8}, None, "no weight changed in 2 steps: gradients may be accumulated over more"),
        (4, {"evaluating": ["norm"]}, None, "layers in evaluation mode during training: norm"),
        (4, {"after": dict.fromkeys("abcd", math.inf)}, None, "weights are not finite: 4 of 4 tensors"),
    ],
)
def test_a_training_that_changes_nothing_is_none(num_changed, changes, defect, warning):
    """It has four tensors of ten numbers each; the first ones have changed."""
    after = {name: 1.0 + (index < num_changed) for index, name in enumerate("abcd")}
    fields = {"names": "abcd", "before": dict.fromkeys("abcd", 1.0), "after": after, "sizes": dict.fromkeys("abcd", 10)}
    training = Training(**fields | changes)
    for texts, expected in (([*training.defects()], defect), ([*training.warnings()], warning)):
        assert len(texts) == (expected is not None)
        assert expected is None or expected in texts[0]
