"""Cells whose network returns no logits. `tests/honest` has outputs of any structure that a cell accepts."""

import pytest
from torch import nn

from accelbench.engines.pytorch import engine
from accelbench.errors import UserError
from accelbench.schema.cell import ModelSpec
from accelbench.schema.vocab import Library, Mode
from fakes import make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS

pytestmark = IGNORES_LIGHTNINGS_WARNINGS


class Dense(nn.Module):
    def __init__(self, gives):
        super().__init__()
        self.layer, self.gives = nn.Linear(784, 10), gives

    def forward(self, images):
        logits = self.layer(images.flatten(1))
        return logits[:, :3] if self.gives == "three classes" else (images, logits)


@pytest.mark.parametrize(
    ("gives", "mode", "gave"),
    [
        ("pair", Mode.infer, r"a tuple\. .* model.output=any, which accepts any"),
        ("three classes", Mode.infer, r"\(32, 3\)"),
        ("three classes", Mode.train, r"\(32, 3\)"),
    ],
)
def test_an_output_that_does_not_do_is_refused_with_the_setting_that_mends_it(digits, gives, mode, gave):
    model = ModelSpec(name="own", library=Library.custom, network=f"{__name__}.Dense", args={"gives": gives})
    with pytest.raises(UserError, match=rf"own: its output should be logits \(batch, 10\), not {gave}"):
        engine.run(make_cell(model=model, mode=mode, breakdown_s=0.0), digits)
