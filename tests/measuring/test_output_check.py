"""What outputs show, with networks that are made of arrays."""

import threading

import numpy as np
import pytest

from accelbench.measuring import output_check
from accelbench.measuring.output_check import (
    NotInTimeError,
    Outputs,
    References,
    batch_axes,
    check,
    in_time,
    random_rows,
    wrong_shape,
)
from accelbench.measuring.outputs import OutputTensor
from accelbench.schema.vocab import Precision

SIZE = 8
GENERATOR = np.random.default_rng(0)
ONE, OTHER, THIRD = (GENERATOR.normal(size=(4, 10)) for _ in range(3))
RIGHT = {"fed": ONE, "unseen": OTHER}


def of(*tensors):
    return [OutputTensor((SIZE, 10), {0: rows}) for rows in tensors]


class Sound:
    """A network whose output for each kind of inputs is known."""

    def __init__(self, outputs=RIGHT):
        self.outputs, self.calls = outputs, 0

    def __call__(self, name, number):
        self.calls += 1
        return self.outputs[name]


class WithState(Sound):
    def __call__(self, name, number):
        return super().__call__(name, number) * (1 + 0.1 * self.calls)


class Keeps(Sound):
    kept = None

    def __call__(self, name, number):
        self.kept = super().__call__(name, number) if self.kept is None else self.kept
        return self.kept


class Random(Sound):
    """Its random numbers are those of the seed `number`."""

    def __call__(self, name, number):
        return super().__call__(name, number) + np.random.default_rng(number).normal(size=ONE.shape)


class Noise(Sound):
    def __call__(self, name, number):
        return np.random.default_rng(number).normal(size=ONE.shape)


def references(kind=Sound, *args, other=None, same=None, rounded=None, **more):
    def run(batches, make=lambda: kind(*args)):
        network = make()
        return [of(network(name, index % 2)) for index, name in enumerate(batches)]

    def with_outputs(outputs):
        return lambda batches: run(batches, lambda: Sound(outputs))

    more |= {"run_same": same and with_outputs(same), "run_rounded": rounded and with_outputs(rounded)}
    return References(run, with_outputs(other or RIGHT), **more)


def found(fed=ONE, unseen=OTHER, precision=Precision.fp32, against=None, **more):
    outputs = Outputs(("fed", "unseen"), SIZE, [(SIZE, 10)], of(fed), of(unseen), **more)
    return check(outputs, precision, against or references())


def said(*args, **more):
    result = found(*args, **more)
    return result.notes, result.warnings, result.defects


def test_an_output_that_is_a_new_networks_is_sound():
    result = found(timed=of(ONE), moved=of(ONE), num_changed=2)
    assert (result.error, result.notes, result.warnings, result.defects, result.compared) == (0, [], [], [], 1)


@pytest.mark.parametrize("kept", [ONE, ONE + 1e-6 * OTHER])
def test_a_kept_output_is_one_that_inputs_change_only_in_a_new_network(kept):
    assert said(unseen=kept) == ([], [], [output_check.STALE])
    assert said(unseen=kept, precision=Precision.bf16) == ([], [], [output_check.STALE])


@pytest.mark.parametrize(
    ("precision", "by", "is_wrong"),
    [
        (Precision.fp32, 1e-4, False),
        (Precision.fp32, 0.1, True),
        (Precision.bf16, 0.1, False),
        (Precision.bf16, 1.0, True),
        (Precision.int8, 0.3, False),
        (Precision.int8, 1.0, True),
    ],
)
def test_an_output_that_rounding_does_not_explain_is_wrong(precision, by, is_wrong):
    wrong = said(ONE + by * THIRD, OTHER + by * THIRD, precision=precision)
    assert [text.startswith("the output differs by") for text in wrong[2]] == [True] * is_wrong
    # The error of one kind of inputs alone is found too, and so is that of a single row.
    assert bool(said(unseen=OTHER + by * THIRD, precision=precision)[2]) == is_wrong
    one_row = ONE.copy()
    one_row[3] = 0
    assert said(one_row)[2] != []


def test_all_tensors_are_compared():
    def outputs(second):
        return Outputs(("fed", "unseen"), SIZE, None, of(ONE, ONE), of(OTHER, second))

    def run(batches):
        return [of(RIGHT[name], RIGHT[name]) for name in batches]

    assert check(outputs(OTHER), Precision.fp32, References(run, run)).defects == []
    assert check(outputs(ONE), Precision.fp32, References(run, run)).defects != []


def test_rounding_is_compared_with_a_network_in_the_same_precision():
    rounded = {name: output + 0.04 * THIRD for name, output in RIGHT.items()}
    outputs = {"precision": Precision.bf16, **rounded}
    assert said(against=references(same=rounded), **outputs) == ([], [], [])
    (defect,) = said(against=references(same=RIGHT), **outputs)[2]
    assert defect.endswith("with the same weights in the same precision")


@pytest.mark.parametrize(("precision", "most"), [(Precision.fp32, 0.01), (Precision.bf16, 0.5)])
def test_a_larger_error_is_never_judged_more_mildly(precision, most):
    def is_wrong(by, **more):
        return said(ONE + by * THIRD, OTHER + by * THIRD, precision=precision, **more)[2] != []

    below = most / 3
    rounded = {name: output + 0.3 * below * THIRD for name, output in RIGHT.items()}
    barely = {name: output + 0.01 * below * THIRD for name, output in RIGHT.items()}
    assert not is_wrong(below, against=references(rounded=rounded))  # a deep network that adds up its rounding
    assert is_wrong(below, against=references(rounded=barely))
    assert is_wrong(5 * most, against=references(rounded=rounded))
    # The same precision says it all the more of a larger error.
    assert not said(**rounded, precision=precision, against=references(same=rounded))[2]
    assert all(is_wrong(by, against=references(same=RIGHT)) for by in (0.05, 0.3, 1.0))
    # Whatever rounding explains, each output has to be that of its own place.
    left_out = ONE + below * THIRD
    left_out[2:] = left_out[2]
    repeated = {"fed": left_out, "unseen": left_out}
    assert said(**repeated, precision=precision, moved=of(THIRD), against=references(rounded=rounded))[2]


SAME, ONES = {"fed": ONE, "unseen": ONE}, {"fed": np.ones((4, 10)), "unseen": np.ones((4, 10))}
ZEROS = {name: 0 * each for name, each in ONES.items()}


def test_inputs_that_are_the_same_accuse_nobody():
    keys = {"inputs_of_rows": lambda batch, num: [0] * num}
    for kind in (Sound, Noise):
        result = found(ONE, ONE, against=references(kind, SAME), **keys)
        assert (output_check.NO_OTHERS in result.notes, result.defects) == (True, [])
    assert said(ONE, ONE, against=references(Sound, SAME, other=SAME), **keys)[2] == []
    assert said(THIRD, THIRD, against=references(Sound, SAME), **keys)[2] != []  # it is wrong all the same


def test_whole_numbers_are_constant_if_all_weights_give_them():
    drawn = iter([ONES, ZEROS])

    def run_other(batches):
        outputs = next(drawn, ONES)
        return [of(outputs[name]) for name in batches]

    against = references(Sound, ONES)._replace(run_other=run_other)
    assert said(**ONES, against=against) == ([output_check.SAME_FOR_ALL], [], [])


def test_a_state_or_weights_that_are_drawn_anew_leave_nothing_to_judge():
    result = found(3 * ONE, 2 * OTHER, against=references(WithState), timed=of(2 * ONE))
    assert (result.notes, result.defects, result.compared) == ([output_check.STATE], [], None)
    drawn = iter([ONE, OTHER, THIRD] * 5)

    class Drawn(Sound):
        def __init__(self):
            super().__init__({name: output * factor for factor in [next(drawn)] for name, output in RIGHT.items()})

    result = found(against=references(Drawn))
    assert (result.error, result.notes, result.defects) == (None, [output_check.ANEW], [])


def test_random_numbers_are_compared_where_a_seed_fixes_them():
    network = Random()
    fed, unseen = network("fed", 1), network("unseen", 0)
    result = found(fed, unseen, against=references(Random), timed=of(ONE + THIRD))
    assert (result.error, result.notes, result.defects) == (0, [output_check.STATE], [])
    wrong = {**RIGHT, "timed": of(THIRD)}
    assert said(against=references(Random), **wrong) == ([output_check.STATE], [], [])
    assert said(against=references(Random, same_random=True), **wrong)[2] != []
    assert said(ONE, OTHER, against=references(Noise), timed=of(THIRD)) == ([], [], [output_check.NOISE])


def test_a_network_that_keeps_in_new_ones_too_is_found():
    assert said(ONE, ONE, against=references(Keeps))[2] != []


def test_the_output_of_a_timed_step_is_that_of_its_own_inputs():
    (defect,) = said(timed=of(THIRD))[2]
    assert defect.startswith("in a timed step the output was not that of the step's own inputs")


@pytest.mark.parametrize("same", [SAME, ZEROS])
def test_a_constant_output_is_a_defect_unless_its_weights_make_it_or_the_user_says_so(same):
    assert said(**same, against=references(Sound, same, other=same)) == ([], [], [output_check.CONSTANT])
    assert said(**same, against=references(Sound, same)) == ([output_check.SAME_FOR_ALL], [], [])
    assert said(**same, against=references(Sound, same, other=same, constant=True)) == ([], [], [])


def test_an_output_that_changes_as_little_as_it_should_is_sound():
    moved = {"fed": ONE, "unseen": ONE + 1e-4 * OTHER}
    assert said(**moved, against=references(Sound, moved)) == ([], [], [])


def test_samples_whose_place_decides_are_noted_and_those_not_computed_are_a_defect():
    assert said(moved=of(THIRD), num_changed=3) == ([output_check.NOT_BY_ROW], [], [])
    unseen = np.concatenate([OTHER[:1], ONE[1:]])  # of three rows with other inputs, two have the same output
    right = {"fed": ONE, "unseen": unseen}
    (defect,) = said(unseen=unseen, against=references(Sound, right), moved=of(THIRD), num_changed=3)[2]
    assert "2 of the samples" in defect
    repeated = {"fed": ONE[:1].repeat(4, 0), "unseen": OTHER[:1].repeat(4, 0)}
    (defect,) = said(**repeated, against=references(Sound, repeated), moved=of(THIRD), num_changed=3)[2]
    assert "3 of the samples" in defect


def test_what_ran_in_training_mode_is_not_compared():
    assert said(THIRD, against=references(in_training=True)) == ([output_check.IN_TRAINING], [], [])


def test_a_reference_that_fails_takes_too_long_or_is_of_another_shape_decides_nothing():
    def gives(error=None, output=None):
        def run(batches):
            if error:
                raise error
            return [output for _ in batches]

        return References(run, run)

    assert said(against=gives(NotInTimeError())) == ([], [output_check.NOT_IN_TIME], [])
    (warning,) = said(against=gives(ValueError("needs\na GPU")))[1]
    assert "where the network fails (ValueError: needs a GPU)" in warning
    assert said(against=references(Sound, {"fed": ONE, "unseen": OTHER * np.inf}))[2] == []
    for output in ([], [OutputTensor((2, 3))], [OutputTensor((2, 3), {0: np.ones((2, 3))})]):
        result = found(precision=Precision.bf16, against=gives(output=output))
        assert (result.error, result.warnings, result.defects) == (None, [], [])


def test_an_output_that_is_not_finite_or_has_no_tensor_is_a_defect():
    assert said(ONE * np.nan) == ([], [], ["the output is not finite"])
    assert said(unseen=OTHER * np.inf)[2] == []  # as fp16 may overflow for images that no data set has
    nothing = Outputs((None, None), SIZE, None, [], [])
    assert check(nothing, Precision.fp32, references()).defects == [output_check.NO_TENSOR]


def test_rows_are_drawn_anew_each_time_and_are_in_the_batch():
    drawn = [random_rows(100) for _ in range(5)]
    assert len({tuple(rows) for rows in drawn}) == 5
    assert all(len(set(rows)) == output_check.NUM_ROWS and set(rows) <= set(range(100)) for rows in drawn)
    assert sorted(random_rows(3)) == [0, 1, 2]


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


def test_a_call_gives_its_result_or_its_error_and_is_left_behind_if_it_is_late():
    assert in_time(lambda: 3, 60) == 3
    for error in (ZeroDivisionError, SystemExit):
        with pytest.raises(error):
            in_time(lambda error=error: (_ for _ in ()).throw(error()), 60)
    ended, begun = threading.Event(), threading.Event()

    def call():
        begun.set()
        ended.wait(60)

    with pytest.raises(NotInTimeError):
        in_time(call, 0.01)
    assert begun.wait(60)
    ended.set()
    with pytest.raises(NotInTimeError):
        in_time(lambda: pytest.fail("it began"), -1.0)
