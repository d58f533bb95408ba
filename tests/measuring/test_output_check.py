import numpy as np
import pytest

from accelbench.measuring import output_check
from accelbench.measuring.output_check import Outputs, OutputTensor, batch_axes, check, difference, wrong_shape
from accelbench.schema.vocab import Precision

SIZE = 8
GENERATOR = np.random.default_rng(0)
ONE, OTHER, THIRD = (GENERATOR.normal(size=(2, 10)) for _ in range(3))


def of(rows):
    return [OutputTensor((SIZE, 10), {0: rows})]


def found(fed, unseen, again, references=(), precision=Precision.fp32, *, is_reference=True):
    """What `check` finds; `references` are the outputs of new networks, in the order in which they are asked for."""
    left = iter(references)
    outputs = Outputs((None, None), SIZE, [(SIZE, 10)], of(fed), of(unseen), of(again))
    result = check(outputs, precision, lambda batches: [of(next(left)) for _ in batches], is_reference=is_reference)
    assert list(left) == []
    return result.warnings, result.defects


def test_an_output_that_the_images_change_needs_no_reference():
    assert found(ONE, OTHER, ONE) == ([], [])


def test_a_kept_output_is_one_that_images_change_only_in_a_new_network():
    assert found(ONE, ONE, ONE, [ONE, ONE, ONE, OTHER]) == ([], [output_check.STALE])
    assert found(ONE, ONE + 1e-6 * OTHER, ONE, [ONE, ONE, ONE, OTHER]) == ([], [output_check.STALE])


@pytest.mark.parametrize(
    ("precision", "by", "finding"),
    [
        (Precision.fp32, 1e-4, ([output_check.CONSTANT], [])),
        (Precision.fp32, 1e-2, ([], [output_check.STALE])),
        (Precision.bf16, 1e-2, ([output_check.CONSTANT], [])),
        (Precision.bf16, 0.3, ([], [output_check.STALE])),
    ],
)
def test_a_reference_that_rounding_could_hide_decides_nothing(precision, by, finding):
    assert found(ONE, ONE, ONE, [ONE, ONE, ONE, ONE + by * OTHER], precision) == finding


def test_an_output_that_changes_as_little_as_it_should_is_sound():
    moved = ONE + 1e-4 * OTHER
    assert found(ONE, moved, ONE, [ONE, ONE, ONE, moved]) == ([], [])


@pytest.mark.parametrize("again", [THIRD, ONE + 1e-2 * THIRD])
def test_a_state_leaves_nothing_to_judge(again):
    assert found(ONE, OTHER, again) == ([output_check.STATE], [])
    assert found(ONE, ONE, again) == ([output_check.STATE], [])


@pytest.mark.parametrize("references", [[ONE, THIRD, ONE, OTHER], [ONE, ONE, THIRD, OTHER]])
def test_a_reference_with_a_state_or_drawn_anew_decides_nothing(references):
    assert found(ONE, ONE, ONE, references) == ([output_check.STATE], [])


def test_a_reference_that_is_not_finite_decides_nothing():
    assert found(ONE, ONE, ONE, [ONE, ONE, ONE, OTHER * np.inf]) == ([output_check.CONSTANT], [])


def test_zeros_are_the_same_output():
    zeros = np.zeros((2, 10))
    assert found(zeros, zeros, zeros, [zeros] * 4) == ([output_check.CONSTANT], [])
    assert difference(zeros, ONE) == 1


def test_an_output_that_is_not_finite_is_a_defect():
    assert found(ONE * np.nan, ONE, ONE) == ([], ["the output is not finite"])
    assert found(ONE, OTHER * np.inf, ONE) == ([], [])  # as fp16 may overflow for images that no data set has


def test_a_reference_of_another_shape_is_not_compared():
    outputs = Outputs((None, None), SIZE, None, of(ONE), of(OTHER), of(ONE))
    for reference in ([], [OutputTensor((2, 3))], [OutputTensor((2, 3), {0: np.ones((2, 3))})]):
        result = check(outputs, Precision.bf16, lambda _, output=reference: [output], is_reference=False)
        assert (result.error, result.warnings, result.defects) == (None, [], [])


@pytest.mark.parametrize(
    ("shape", "size", "axes"),
    [
        ((8, 10), 8, [0]),
        ((5, 8, 3), 8, [1]),
        ((8, 8, 3), 8, [0, 1]),
        ((1, 8, 3), 8, [1]),  # a recurrent layer's last state
        ((1, 8), 8, []),
        ((1, 10), 8, []),
        ((1, 10), 1, [0]),
        ((10,), 8, []),
        ((), 8, []),
    ],
)
def test_the_batchs_dimension_is_found_but_in_a_single_row(shape, size, axes):
    assert batch_axes(shape, size) == axes


@pytest.mark.parametrize(
    ("shapes", "allowed", "problem"),
    [
        ([(8, 10)], [(8, 10)], None),
        ([(8, 1)], [(8, 2), (8, 1)], None),
        ([(8, 3)], [(8, 10)], "the output is (8, 3), not (8, 10): see model.num_classes and model.output"),
        ([(8, 3)], [(8, 2), (8, 1)], "the output is (8, 3), not (8, 2) or (8, 1): see model.num"),
        ([(8, 10), (8, 10)], [(8, 10)], "the output is (8, 10), (8, 10), not (8, 10)"),
        ([], [(8, 10)], "the output is no tensor, not (8, 10)"),
        ([(1, 10), (8, 3)], None, None),
        ([(4,)], None, None),
        ([(4,), (1, 10)], None, "the output is (4,), (1, 10): one row, not one for each of the batch's 8 samples"),
    ],
)
def test_the_shape_is_one_of_those_allowed_or_has_more_than_one_row(shapes, allowed, problem):
    told = wrong_shape([OutputTensor(shape) for shape in shapes], 8, allowed)
    assert told == problem if problem is None else told.startswith(problem)
