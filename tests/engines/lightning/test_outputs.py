"""Cells of networks whose output is wrong, kept from another batch, or no logits: which of them are valid."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from accelbench.data.obtain import Obtained
from accelbench.data.prepare import describe
from accelbench.engines.lightning import engine, zoo
from accelbench.engines.lightning.outputs import all_finite, described
from accelbench.engines.lightning.structure import tensors_in
from accelbench.errors import UserError
from accelbench.judging.asked import judge
from accelbench.measuring import output_check
from accelbench.schema.cell import Options
from accelbench.schema.vocab import (
    NOT_QUANTIZED,
    Device,
    Library,
    Mode,
    ModelOutput,
    Pipeline,
    Precision,
    Protocol,
    Status,
    Weights,
)
from accelbench.schema.workload import DataSpec, ModelSpec
from engines.lightning.test_options import compiles
from fakes import make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS

pytestmark = IGNORES_LIGHTNINGS_WARNINGS
MLP = ModelSpec(name="mlp", args={"widths": [32, 32], "dropout": 0.0})


class Dense(nn.Module):
    """A sound network."""

    num_classes = 10

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(784, self.num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(images.flatten(1))


class ThreeClasses(Dense):
    num_classes = 3


class OneLogit(Dense):
    num_classes = 1


class OneRow(Dense):
    def forward(self, images):
        return super().forward(images[:1])


class Map(Dense):
    def forward(self, images):
        return super().forward(images)[:, :, None, None].expand(-1, -1, 4, 4)


class Cached(Dense):
    """Returns its first output for ever."""

    def __init__(self):
        super().__init__()
        self._cache = None

    def forward(self, images):
        if self._cache is None:
            self._cache = super().forward(images)
        return self._cache


class CachedFeatures(Dense):
    """Keeps what its first layer gave, and runs only the last one."""

    def __init__(self):
        super().__init__()
        self.body, self._cache = nn.Linear(784, 784), None

    def forward(self, images):
        if self._cache is None:
            self._cache = self.body(images.flatten(1)).relu()
        return self.layer(self._cache)


class CachedByAddress(Dense):
    """Keeps the output of each tensor by its address: a feed on the device gives the same one in every step."""

    def __init__(self):
        super().__init__()
        self._known = {}

    def forward(self, images):
        if images.data_ptr() not in self._known:
            self._known[images.data_ptr()] = super().forward(images)
        return self._known[images.data_ptr()]


class NearlyCached(Cached):
    """Adds a trace of its input to the first output."""

    def forward(self, images):
        return super().forward(images) + 1e-5 * images.mean()


class Constant(Dense):
    """Sound, though its last layer starts at zero, as many do."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(10, 10)
        nn.init.zeros_(self.head.weight)

    def forward(self, images):
        return self.head(super().forward(images))


class Counting(Dense):
    """Its output changes with each call."""

    def __init__(self):
        super().__init__()
        self.num_calls = 0

    def forward(self, images):
        self.num_calls += 1
        return super().forward(images) + self.num_calls


class ConstantAfterFirst(Dense):
    """Computes its first output, and then gives the same one always."""

    def __init__(self):
        super().__init__()
        self.ran = False

    def forward(self, images):
        output = super().forward(images * (not self.ran))
        self.ran = True
        return output


class FixedBatch(Dense):
    """Takes batches of 32 alone."""

    def forward(self, images):
        return super().forward(images.view(32, 784))


class Pair(Dense):
    def forward(self, images):
        logits = super().forward(images)
        return images.flatten(1).argmax(1), logits


class Several(Dense):
    def forward(self, images):
        logits = super().forward(images)
        return {"logits": logits, "parts": [logits[:, :3], (logits.mean(1),)], "scale": logits.new_ones(1), "no": None}


class Scores(NamedTuple):
    logits: Tensor


@dataclass
class Detected:
    boxes: Tensor
    scores: Scores


class Detecting(Dense):
    def forward(self, images):
        logits = super().forward(images)
        return Detected(logits[:, None, :4], Scores(logits))


class TimeFirst(Dense):
    """(layers, batch, features), as a recurrent layer returns its last state."""

    def forward(self, images):
        return super().forward(images)[None]


class TwoTimes(Dense):
    """(times, batch, features), with as many times as images are compared."""

    num_times = 2

    def forward(self, images):
        logits = super().forward(images)
        return torch.stack([logits + time for time in range(self.num_times)])


class TimesLikeImages(TwoTimes):
    """(times, batch, features), with as many times as a batch has images. The first times have no value yet."""

    num_times = 32

    def forward(self, images):
        return super().forward(images) * (torch.arange(self.num_times) > 2)[:, None, None]


class CachedTimes(TimesLikeImages, Cached):
    """Returns its first output for ever."""


class ScaledTimes(TimesLikeImages):
    """Gives other values for a whole batch than for the few images of the reference."""

    def forward(self, images):
        return super().forward(images) * len(images)


class Summed(Dense):
    def forward(self, images):
        return super().forward(images).sum(0)


class Integers(Dense):
    def forward(self, images):
        return super().forward(images).argmax(1)


class CachedPair(Cached):
    def forward(self, images):
        return (super().forward(images), images.sum())


def cell_of(network, **changes):
    output = changes.pop("output", ModelOutput.logits)
    model = ModelSpec(name="own", library=Library.custom, network=f"{__name__}.{network.__name__}", output=output)
    return make_cell(**{"model": model, "breakdown_s": 0.0, **changes})


def judged(cell, folder):
    """Why the cell is invalid, None if it is not, and its warnings and notes."""
    measured = engine.run(cell, folder)
    return judge(cell, measured), measured.warnings + measured.notes


@pytest.mark.parametrize("precision", [p for p in NOT_QUANTIZED if p != Precision.tf32])
def test_an_honest_network_is_valid_in_every_precision(digits, precision):
    assert judged(make_cell(model=MLP, precision=precision, breakdown_s=0.0), digits) == (None, [])


@pytest.mark.parametrize("batch_size", [1, 200])
def test_an_honest_network_is_valid_at_every_batch_size(digits, batch_size):
    cell = cell_of(Dense, precision=Precision.bf16, protocol=Protocol.fit, batch_size=batch_size)
    assert judged(cell, digits) == (None, [])


@pytest.mark.parametrize(
    ("network", "gave"), [(ThreeClasses, (32, 3)), (OneRow, (1, 10)), (Map, (32, 10, 4, 4)), (OneLogit, (32, 1))]
)
def test_logits_of_another_shape_make_the_cell_invalid(digits, network, gave):
    why, _ = judged(cell_of(network), digits)
    assert why == f"the output is {gave}, not (32, 10): see model.num_classes and model.output"


def test_a_short_last_batch_does_not_excuse_a_wrong_shape(digits):
    why, _ = judged(cell_of(OneRow, protocol=Protocol.fit), digits)
    assert why.startswith("the output is (1, 10), not (32, 10)")


def test_an_output_that_is_no_tensor_is_refused_with_the_setting_that_takes_it(digits):
    with pytest.raises(UserError, match=r"not a tuple: model.output=any measures inference with any output"):
        engine.run(cell_of(Pair), digits)
    with pytest.raises(UserError, match=r"own: it gives 3 logits for 10 classes"):
        engine.run(cell_of(ThreeClasses, mode=Mode.train), digits)


@pytest.mark.parametrize("precision", [Precision.fp32, Precision.bf16])
@pytest.mark.parametrize("network", [Cached, CachedFeatures, NearlyCached])
def test_an_output_that_is_kept_from_an_earlier_batch_makes_the_cell_invalid(digits, network, precision):
    why, _ = judged(cell_of(network, precision=precision), digits)
    assert why == output_check.STALE


def test_an_output_that_is_kept_by_its_inputs_address_makes_the_cell_invalid(tmp_path):
    describe(Obtained(classes=(), source="random"), "random", tmp_path)
    why, _ = judged(cell_of(CachedByAddress, data=DataSpec(name="random", pipeline=Pipeline.device)), tmp_path)
    assert why == output_check.STALE


@pytest.mark.parametrize("output", ModelOutput)
def test_a_sound_network_whose_weights_make_its_output_constant_is_valid_with_a_note(digits, output):
    assert judged(cell_of(Constant, output=output), digits) == (None, [output_check.SAME_FOR_ALL])


@pytest.mark.parametrize("network", [Counting, ConstantAfterFirst])
def test_a_network_with_a_state_is_valid_with_a_note(digits, network):
    assert judged(cell_of(network), digits) == (None, [output_check.STATE])


def test_a_network_of_a_fixed_batch_size_is_valid_though_nothing_compares_its_output(digits):
    why, (told,) = judged(cell_of(FixedBatch, precision=Precision.bf16), digits)
    assert why is None
    assert told.startswith("the output was not compared with fp32's on the CPU, where the network fails (RuntimeError:")


@pytest.mark.parametrize("network", [Dense, Pair, Several, Detecting, TimeFirst, TwoTimes, TimesLikeImages, Map])
def test_any_structure_of_tensors_is_valid_if_asked_for(digits, network):
    cell = cell_of(network, output=ModelOutput.any, precision=Precision.bf16)
    measured = engine.run(cell, digits)
    assert (judge(cell, measured), measured.warnings) == (None, [])
    assert 1e-4 < measured.output_error < 0.05


def test_a_wrong_output_is_found_if_its_times_are_as_many_as_its_images(digits):
    measured = engine.run(cell_of(ScaledTimes, output=ModelOutput.any, precision=Precision.bf16), digits)
    assert 14 < measured.output_error < 16


@pytest.mark.parametrize("network", [Pair, Several])
def test_a_structure_is_measured_with_all_that_is_timed_beside(digits, network):
    measured = engine.run(cell_of(network, output=ModelOutput.any, breakdown_s=0.01), digits)
    assert measured.work.flops == 2 * 32 * 784 * 10
    assert measured.operators
    assert measured.breakdown is not None


@pytest.mark.parametrize(
    ("network", "why", "warnings"),
    [
        (OneRow, "the output is (1, 10): one row, not one for each of the batch's 32 samples", []),
        (Summed, None, [output_check.NO_BATCH.format(size=32)]),
        (Integers, None, [output_check.NOT_FLOAT]),
        (CachedPair, output_check.STALE, []),
        (TimesLikeImages, None, []),
        (CachedTimes, output_check.STALE, []),
    ],
)
def test_any_output_is_checked_as_far_as_it_can_be(digits, network, why, warnings):
    assert judged(cell_of(network, output=ModelOutput.any), digits) == (why, warnings)


@compiles
@pytest.mark.slow
def test_a_compiled_network_that_keeps_an_output_is_invalid(digits):
    why, _ = judged(cell_of(CachedFeatures, options=Options(compile=True)), digits)
    assert why == output_check.STALE  # kept from before it was compiled


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("network", "changes", "why"),
    [
        (Several, {"output": ModelOutput.any}, None),
        (Dense, {"options": Options(cuda_graphs=True)}, None),
        (Dense, {"options": Options(cuda_graphs=True, compile=True)}, None),
        (Cached, {}, output_check.STALE),
    ],
)
def test_outputs_on_a_gpu(hosts, digits, network, changes, why):
    outcome = hosts.run(cell_of(network, device=Device.gpu, **changes), digits)
    assert outcome.reason == why, outcome.error
    assert outcome.status == (Status.invalid if why else Status.ok)


def test_the_tensors_of_a_structure_are_all_found_in_order():
    one, two, three = torch.ones(2), torch.zeros(2, 3), torch.tensor([1, 2])
    output = {"a": [one, None, "text"], "b": Detected(two, Scores(three))}
    assert [id(tensor) for tensor in tensors_in(output)] == [id(tensor) for tensor in (one, two, three)]
    assert list(tensors_in(3)) == []
    assert all_finite(output)
    assert not all_finite([output, torch.tensor(torch.nan)])
    assert all_finite(torch.tensor(1e200, dtype=torch.float64))


def test_rows_are_those_of_the_batchs_dimension():
    time_first = torch.arange(24.0).reshape(3, 4, 2)
    (found,) = described(time_first, 4, [0, 3])
    assert found.shape == (3, 4, 2)
    assert found.rows.keys() == {1}
    assert found.rows[1].tolist() == time_first[:, [0, 3]].movedim(1, 0).tolist()


def test_pretrained_weights_have_the_classes_that_they_were_trained_for():
    pretrained = ModelSpec(name="resnet18", library=Library.torchvision, weights=Weights.pretrained)
    assert zoo.num_logits(pretrained, 10) == 1000
    assert zoo.num_logits(ModelSpec(name="resnet18", library=Library.torchvision), 10) == 10
