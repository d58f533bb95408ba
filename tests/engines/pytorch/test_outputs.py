"""Cells whose network gives no logits: `tests/honest` has those that a cell takes in any structure."""

import pytest
from torch import nn

from accelbench.engines.pytorch import engine, global_state, outputs
from accelbench.errors import UserError
from accelbench.schema.vocab import Library, Mode
from accelbench.schema.workload import ModelSpec
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
        ("pair", Mode.infer, "a tuple: .* model.output=any takes any"),
        ("three classes", Mode.infer, r"\(32, 3\)"),
        ("three classes", Mode.train, r"\(32, 3\)"),
    ],
)
def test_an_output_that_does_not_do_is_refused_with_the_setting_that_mends_it(digits, gives, mode, gave):
    model = ModelSpec(name="own", library=Library.custom, network=f"{__name__}.Dense", args={"gives": gives})
    with pytest.raises(UserError, match=rf"own: its output should be logits \(batch, 10\), not {gave}"):
        engine.run(make_cell(model=model, mode=mode, breakdown_s=0.0), digits)


@pytest.mark.usefixtures("state_as_before")
def test_the_settings_of_a_new_network_do_not_stay_until_the_cells_own_are_read_back(digits, monkeypatch):
    of_cell = global_state.values_of_a_cell
    monkeypatch.setattr(outputs, "values_of_a_cell", lambda allow_tf32: of_cell(allow_tf32=not allow_tf32))
    engine.run(make_cell(breakdown_s=0.0), digits)
    assert not global_state.multiplies_in_tf32()
