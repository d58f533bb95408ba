"""Cells of networks whose output has many structures, or is no logits, or is wrong."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from accelbench.engines.lightning import engine
from accelbench.errors import UserError
from accelbench.judging.asked import judge
from accelbench.schema.vocab import Library, Mode, ModelOutput, Precision, Protocol
from accelbench.schema.workload import ModelSpec
from fakes import make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS

pytestmark = IGNORES_LIGHTNINGS_WARNINGS
BF16 = {"precision": Precision.bf16}


class Scores(NamedTuple):
    logits: Tensor


@dataclass
class Detected:
    boxes: Tensor
    scores: Scores


# What a network makes of its images and logits.
OUTPUTS = {
    "logits": lambda images, logits: logits,
    "three classes": lambda images, logits: logits[:, :3],
    "pair": lambda images, logits: (images.flatten(1).argmax(1), logits),
    "several": lambda images, logits: {"logits": logits, "parts": [(logits.mean(1),)], "no": None},
    "detected": lambda images, logits: Detected(logits[:, None, :4], Scores(logits)),
    "times like images": lambda images, logits: torch.stack([logits + time for time in range(32)]),
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


class Kept(Dense):
    """Gives its first output for ever, as a cache does that forgot its key."""

    first = None

    def forward(self, images: Tensor) -> Tensor:
        self.first = super().forward(images) if self.first is None else self.first
        return self.first


def cell_of(gives, output=ModelOutput.logits, kind=Dense, **changes):
    network = f"{__name__}.{kind.__name__}"
    model = ModelSpec(name="own", library=Library.custom, network=network, args={"gives": gives}, output=output)
    return make_cell(**{"model": model, "breakdown_s": 0.0, **changes})


@pytest.mark.parametrize("batch_size", [1, 200])
def test_an_honest_network_is_valid_at_every_batch_size(digits, batch_size):
    cell = cell_of("logits", protocol=Protocol.fit, batch_size=batch_size, **BF16)
    measured = engine.run(cell, digits)
    assert (judge(cell, measured), measured.warnings) == (None, [])


def test_an_output_that_is_kept_from_the_first_batch_is_wrong(digits):
    cell = cell_of("logits", kind=Kept)
    assert "for a batch that was never fed differs" in judge(cell, engine.run(cell, digits))


@pytest.mark.parametrize(
    ("gives", "mode", "gave"),
    [
        ("pair", Mode.infer, "a tuple: .* model.output=any takes any"),
        ("three classes", Mode.infer, r"\(32, 3\)"),
        ("three classes", Mode.train, r"\(32, 3\)"),
    ],
)
def test_an_output_that_does_not_do_is_refused_with_the_setting_that_mends_it(digits, gives, mode, gave):
    with pytest.raises(UserError, match=rf"own: its output should be logits \(batch, 10\), not {gave}"):
        engine.run(cell_of(gives, mode=mode), digits)


@pytest.mark.parametrize("gives", ["several", "times like images", "pair", "detected", "sum", "integers"])
def test_any_structure_of_tensors_is_valid_if_asked_for(digits, gives):
    cell = cell_of(gives, ModelOutput.any, **BF16)
    measured = engine.run(cell, digits)
    assert (judge(cell, measured), measured.warnings) == (None, [])
    assert measured.output_error < 0.1
    assert measured.work.flops == 2 * 32 * 784 * 10
