"""The precision that ran, read from the weights of a network."""

import torch
from torch import nn

from accelbench.engines.pytorch.precision import Observer


def test_the_format_of_the_weights_is_that_of_most_numbers_not_of_the_largest_weight():
    layers = nn.ModuleList([nn.Linear(40, 40), *(nn.Linear(30, 30).to(torch.bfloat16) for _ in range(4))])
    assert Observer(layers).stored().dtype == torch.bfloat16
    assert Observer(nn.ReLU()).stored() is None
