"""What outputs show, with networks that are made of arrays."""

import threading

import numpy as np
import pytest

from accelbench.measuring import output_check
from accelbench.schema.vocab import Precision

SIZE = 8
GENERATOR = np.random.default_rng(0)
ONE, OTHER, THIRD = (GENERATOR.normal(size=(4, 10)) for _ in range(3))
RIGHT = {"fed": ONE, "unseen": OTHER}


def of(*tensors):
    return [output_check.OutputTensor((SIZE, 10), {0: rows}) for rows in tensors]


class Sound:
    """A network whose output for each kind of inputs is known; `number` seeds its random numbers."""

    def __init__(self, outputs=RIGHT):
        self.outputs, self.calls, self.kept = outputs, 0, None

    def __call__(self, name, number):
        self.calls += 1
        return self.change(self.outputs[name], np.random.default_rng(number).normal(size=ONE.shape))

    def change(self, output, noise):
        return output


class WithState(Sound):
    def change(self, output, noise):
        return output * (1 + 0.1 * self.calls)


class Keeps(Sound):
    def change(self, output, noise):
        self.kept = output if self.kept is None else self.kept
        return self.kept


class Random(Sound):
    def change(self, output, noise):
        return output + noise


class Noise(Sound):
    def change(self, output, noise):
        return noise


def references(kind=Sound, *args, other=None, same=None, rounded=None, **more):
    def run(batches, *, other=None, precision=None):
        network = kind(*args) if (other or precision) is None else Sound(others[precision])
        return [of(network(name, index % 2)) for index, name in enumerate(batches)]

    others = {None: other or RIGHT, Precision.bf16: same, Precision.fp64: rounded}
    return output_check.References(run, same and Precision.bf16, rounded and Precision.fp64, **more)


def own(batch, num):
    """The inputs of each row are its own."""
    return [(batch, row) for row in range(num)]


def found(fed=ONE, unseen=OTHER, precision=Precision.fp32, against=None, keys=own, **more):
    outputs = output_check.Outputs(("fed", "unseen"), keys, SIZE, [(SIZE, 10)], of(fed), of(unseen), **more)
    return output_check.check(outputs, precision, against or references())


def said(*args, **more):
    result = found(*args, **more)
    return result.notes, result.warnings, result.defects


SAME, ONES = {"fed": ONE, "unseen": ONE}, {"fed": np.ones((4, 10)), "unseen": np.ones((4, 10))}
ZEROS = {name: 0 * each for name, each in ONES.items()}
HARDLY = {"fed": ONE, "unseen": ONE + 1e-4 * OTHER}
RANDOM = {"fed": Random()("fed", 1), "unseen": Random()("unseen", 0)}
TIMED, MOVED = {"timed": of(THIRD)}, {"moved": of(THIRD), "num_changed": 3}
BF16 = {"precision": Precision.bf16}
CLOSE = {name: output + 0.04 * THIRD for name, output in RIGHT.items()}


def gives(error=None, output=None):
    def run(batches, **how):
        if error:
            raise error
        return [output for _ in batches]

    return output_check.References(run)


@pytest.mark.parametrize(
    ("outputs", "against", "notes", "warnings", "defects"),
    [
        # a sound one, and one that is kept, whatever little else it does
        ({"timed": of(ONE), "moved": of(ONE), "num_changed": 2}, references(), [], [], []),
        (HARDLY, references(Sound, HARDLY), [], [], []),
        *[({"unseen": each}, references(), [], [], [output_check.STALE]) for each in (ONE, HARDLY["unseen"])],
        ({"unseen": ONE, **BF16}, references(), [], [], [output_check.STALE]),
        (SAME, references(Keeps), [], [], [output_check.STALE]),  # as new ones do too
        ({**CLOSE, **BF16}, references(same=CLOSE), [], [], []),
        ({**CLOSE, **BF16}, references(same=RIGHT), [], [], ["with the same weights in the same precision"]),
        (TIMED, references(), [], [], ["in a timed step the output was not that of the step's own inputs"]),
        # constants
        *[(each, references(Sound, each, other=each), [], [], [output_check.CONSTANT]) for each in (SAME, ZEROS)],
        *[(each, references(Sound, each), [output_check.SAME_FOR_ALL], [], []) for each in (SAME, ZEROS)],
        *[(each, references(Sound, each, other=each, constant=True), [], [], []) for each in (SAME, ZEROS)],
        # states and random numbers
        ({"fed": 3 * ONE, "unseen": 2 * OTHER}, references(WithState), [output_check.STATE], [], []),
        ({**RANDOM, "timed": of(ONE + THIRD)}, references(Random), [output_check.STATE], [], []),
        (TIMED, references(Random), [output_check.STATE], [], []),
        (TIMED, references(Random, same_random=True), [], [], ["differs by"]),
        (TIMED, references(Noise), [], [], [output_check.NOISE]),
        # a sample's place in the batch; of three rows with other inputs, two have the same output, or all three
        (MOVED, references(), [output_check.NOT_BY_ROW], [], []),
        *[
            ({**each, **MOVED}, references(Sound, each), [], [], [f"{num} of the samples"])
            for num, each in (
                (2, {"fed": ONE, "unseen": np.concatenate([OTHER[:1], ONE[1:]])}),
                (3, {"fed": ONE[:1].repeat(4, 0), "unseen": OTHER[:1].repeat(4, 0)}),
            )
        ],
        # nothing to compare with
        ({"fed": THIRD}, references(in_training=True), [output_check.IN_TRAINING], [], []),
        ({}, gives(output_check.NotInTimeError()), [], [output_check.NOT_IN_TIME], []),
        ({}, gives(ValueError("needs\na GPU")), [], ["where the network fails (ValueError: needs a GPU)"], []),
        ({}, references(Sound, {"fed": ONE, "unseen": OTHER * np.inf}), [], [], []),
        (BF16, gives(output=[]), [], [], []),
        (BF16, gives(output=[output_check.OutputTensor((2, 3))]), [], [], []),
        (BF16, gives(output=[output_check.OutputTensor((2, 3), {0: np.ones((2, 3))})]), [], [], []),
        ({"fed": ONE * np.nan}, references(), [], [], ["the output is not finite"]),
        ({"unseen": OTHER * np.inf}, references(), [], [], []),  # as fp16 may overflow for images of no data set
    ],
)
def test_what_outputs_show(outputs, against, notes, warnings, defects):
    for texts, expected in zip(said(**outputs, against=against), (notes, warnings, defects), strict=True):
        assert len(texts) == len(expected)
        assert all(part in text for text, part in zip(texts, expected, strict=True)), texts


def test_how_far_an_output_is_from_a_new_networks_is_known_unless_that_is_drawn_anew():
    result = found(timed=of(ONE))
    assert (result.error, result.compared) == (0, 1)
    assert found(**RANDOM, against=references(Random), **TIMED).error == 0
    assert found(against=gives(output=[])).error is None
    assert found(3 * ONE, 2 * OTHER, against=references(WithState)).compared is None
    drawn = iter([ONE, OTHER, THIRD] * 5)

    class Drawn(Sound):
        def __init__(self):
            super().__init__({name: output * factor for factor in [next(drawn)] for name, output in RIGHT.items()})

    result = found(against=references(Drawn))
    assert (result.error, result.notes, result.defects) == (None, [output_check.ANEW], [])


@pytest.mark.parametrize(
    ("precision", "by", "is_wrong"),
    [
        *((Precision.fp32, 1e-4, False), (Precision.fp32, 0.1, True), (Precision.bf16, 0.1, False)),
        *((Precision.bf16, 1.0, True), (Precision.int8, 0.3, False), (Precision.int8, 1.0, True)),
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
        return output_check.Outputs(("fed", "unseen"), own, SIZE, None, of(ONE, ONE), of(OTHER, second))

    def run(batches, **how):
        return [of(RIGHT[name], RIGHT[name]) for name in batches]

    assert output_check.check(outputs(OTHER), Precision.fp32, output_check.References(run)).defects == []
    assert output_check.check(outputs(ONE), Precision.fp32, output_check.References(run)).defects != []


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


def test_inputs_that_are_the_same_accuse_nobody():
    keys = {"keys": lambda batch, num: [0] * num}
    for kind in (Sound, Noise):
        result = found(ONE, ONE, against=references(kind, SAME), **keys)
        assert (output_check.NO_OTHERS in result.notes, result.defects) == (True, [])
    assert said(ONE, ONE, against=references(Sound, SAME, other=SAME), **keys)[2] == []
    assert said(THIRD, THIRD, against=references(Sound, SAME), **keys)[2] != []  # it is wrong all the same


@pytest.mark.parametrize("size", [2, 3, 8])
def test_in_another_order_no_row_keeps_its_place(size):
    for _ in range(50):
        order = output_check.random_order(size)
        assert sorted(order) == list(range(size))
        assert all(row != place for place, row in enumerate(order))


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
    told = output_check.wrong_shape([output_check.OutputTensor(shape) for shape in shapes], 8, allowed)
    assert told == problem if problem is None else told.startswith(problem)


def test_a_call_gives_its_result_or_its_error_and_is_left_behind_if_it_is_late():
    assert output_check.in_time(lambda: 3, 60) == 3
    with pytest.raises(ZeroDivisionError):
        output_check.in_time(lambda: 1 / 0, 60)
    ended = threading.Event()
    for left_s in (0.01, -1.0):
        with pytest.raises(output_check.NotInTimeError):
            output_check.in_time(lambda: ended.wait(60), left_s)
    ended.set()
