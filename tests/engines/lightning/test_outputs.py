"""Cells of networks whose output is wrong, kept from another batch, or no logits: which of them are valid.

`tests/honest` has whole programs; here is what their outputs may look like.
"""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from accelbench.engines.lightning import engine
from accelbench.engines.lightning.outputs import all_finite
from accelbench.errors import UserError
from accelbench.judging.asked import judge
from accelbench.measuring import output_check
from accelbench.schema.vocab import Library, Mode, ModelOutput, Precision, Protocol
from accelbench.schema.workload import ModelSpec
from fakes import make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS, slow

pytestmark = IGNORES_LIGHTNINGS_WARNINGS
BF16 = {"precision": Precision.bf16}
OF_TIMES = "the speed is that of the inputs that were fed"


class Scores(NamedTuple):
    logits: Tensor


@dataclass
class Detected:
    boxes: Tensor
    scores: Scores


def times(logits, num, first=0):
    """(times, batch, features); the first times have no value yet."""
    return torch.stack([(logits + time) * (time >= first) for time in range(num)])


def several(logits):
    return {"logits": logits, "parts": [logits[:, :3], (logits.mean(1),)], "scale": logits.new_ones(1), "no": None}


# What a network makes of its images and logits.
OUTPUTS = {
    "logits": lambda images, logits: logits,
    "three classes": lambda images, logits: logits[:, :3],
    "one row": lambda images, logits: logits[:1],
    "map": lambda images, logits: logits[:, :, None, None].expand(-1, -1, 4, 4),
    "pair": lambda images, logits: (images.flatten(1).argmax(1), logits),
    "several": lambda images, logits: several(logits),
    "detected": lambda images, logits: Detected(logits[:, None, :4], Scores(logits)),
    "two times": lambda images, logits: times(logits, 2),  # as many as images are compared
    "times like images": lambda images, logits: times(logits, 32, first=3),
    "sum": lambda images, logits: logits.sum(0),
    "integers": lambda images, logits: logits.argmax(1),
}


class Dense(nn.Module):
    """A sound network, but for its output."""

    def __init__(self, gives="logits"):
        super().__init__()
        self.layer, self.gives = nn.Linear(784, 10), gives

    def forward(self, images: Tensor) -> Tensor:
        return OUTPUTS[self.gives](images, self.layer(images.flatten(1)))


def cell_of(network, output=ModelOutput.logits, **changes):
    args = {"gives": network}
    model = ModelSpec(name="own", library=Library.custom, network=f"{__name__}.Dense", args=args, output=output)
    return make_cell(**{"model": model, "breakdown_s": 0.0, **changes})


def judged(cell, folder):
    """Why the cell is invalid, None if it is not, and its warnings and notes but for what other programs disturb."""
    measured = engine.run(cell, folder)
    return judge(cell, measured), [text for text in measured.warnings + measured.notes if OF_TIMES not in text]


@pytest.mark.parametrize("batch_size", [1, 200])
def test_an_honest_network_is_valid_at_every_batch_size(digits, batch_size):
    cell = cell_of("logits", protocol=Protocol.fit, batch_size=batch_size, **BF16)
    assert judged(cell, digits) == (None, [])


def test_a_single_row_of_logits_makes_the_cell_invalid(digits):
    why, _ = judged(cell_of("one row"), digits)
    assert why == "the output is (1, 10), not (32, 10): see model.num_classes and model.output"


@pytest.mark.parametrize(
    ("network", "mode", "gave"),
    [
        ("pair", Mode.infer, "a tuple: .* model.output=any takes any"),
        ("three classes", Mode.infer, r"\(32, 3\)"),
        ("three classes", Mode.train, r"\(32, 3\)"),
    ],
)
def test_an_output_that_does_not_do_is_refused_with_the_setting_that_mends_it(digits, network, mode, gave):
    with pytest.raises(UserError, match=rf"own: its output should be logits \(batch, 10\), not {gave}"):
        engine.run(cell_of(network, mode=mode), digits)


@pytest.mark.parametrize(
    "network", ["several", "times like images", *map(slow, ("two times", "pair", "detected", "map"))]
)
def test_any_structure_of_tensors_is_valid_if_asked_for(digits, network):
    cell = cell_of(network, ModelOutput.any, breakdown_s=0.01, **BF16)
    measured = engine.run(cell, digits)
    assert (judge(cell, measured), measured.warnings) == (None, [])
    assert 1e-4 < measured.output_error < 0.1
    assert measured.work.flops == 2 * 32 * 784 * 10
    assert measured.operators
    assert measured.breakdown is not None


@pytest.mark.parametrize(
    ("network", "why", "warnings"),
    [
        ("one row", "the output is (1, 10): one row, not one for each of the batch's 32 samples", []),
        ("sum", None, [output_check.NO_ROWS.format(size=32)]),
        slow("integers", None, [output_check.NO_ROWS.format(size=32)]),
        ("times like images", None, []),
    ],
)
def test_any_output_is_checked_as_far_as_it_can_be(digits, network, why, warnings):
    assert judged(cell_of(network, ModelOutput.any), digits) == (why, warnings)


def test_every_number_of_a_structure_is_to_be_finite():
    output = {"a": [torch.ones(2), None, "text"], "b": Detected(torch.zeros(2, 3), Scores(torch.tensor([1, 2])))}
    assert all_finite(output)
    assert not all_finite({**output, "c": Detected(torch.zeros(2), Scores(torch.tensor([1, torch.nan])))})
    assert all_finite(torch.tensor(1e200, dtype=torch.float64))
