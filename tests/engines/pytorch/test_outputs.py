"""Cells whose network returns no logits. `tests/honest` has outputs of any structure that a cell accepts."""

import pytest
import torch
from torch import nn

from accelbench.engines.pytorch import engine
from accelbench.engines.pytorch.outputs import norm_of
from accelbench.engines.pytorch.structure import arrays_in, is_same, num_bytes
from accelbench.errors import UserError
from accelbench.schema.cell import ModelSpec
from accelbench.schema.vocab import Library, Mode
from fakes import make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS

pytestmark = IGNORES_LIGHTNINGS_WARNINGS


def test_a_weight_of_which_only_signs_change_is_seen_to_change():
    assert norm_of(torch.tensor([1.0, -1.0, -1.0])) != norm_of(torch.tensor([1.0, 1.0, -1.0]))
    assert norm_of(torch.zeros(3)) == 0 != norm_of(torch.tensor([-1.0]))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors_with_the_same_numbers_in_other_places_differ(layout):
    one, other = torch.eye(3).to_sparse(layout=layout), torch.eye(3).flip(0).to_sparse(layout=layout)
    assert is_same(one, one)
    assert not is_same(one, other)
    assert str(arrays_in(one)) != str(arrays_in(other))
    assert num_bytes(one) == 12
    assert norm_of(one) == norm_of(other)


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
