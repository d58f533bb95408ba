"""PyTorch's global settings, which the user's code may change."""

import pytest
import torch

from accelbench.devices.cpu import usable_cores
from accelbench.engines.pytorch import engine
from accelbench.judging.verdict import judge
from accelbench.schema.vocab import Precision, Protocol
from engines.pytorch.test_batches import own_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS, slow

pytestmark = [IGNORES_LIGHTNINGS_WARNINGS, pytest.mark.usefixtures("state_as_before")]
THREE_STEPS = {"protocol": Protocol.steps, "warmup": 1, "steps": 3}


@pytest.mark.parametrize(
    "what", ["newer", slow("cudnn"), slow("threads"), slow("deterministic"), slow("dtype"), slow("device")]
)
def test_what_a_network_sets_while_it_is_built_does_not_hold_while_it_is_measured(tmp_path, what):
    cell = own_cell("Sets", "two_inputs", args={"what": what}, **THREE_STEPS)
    measurement = engine.run(cell, tmp_path)
    assert judge(cell, measurement) is None
    assert measurement.threads == usable_cores()
    assert torch.backends.mkldnn.matmul.fp32_precision == torch.backends.cudnn.conv.fp32_precision == "ieee"
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_default_dtype() == torch.float32


def test_a_network_with_most_weights_in_the_asked_format_ran_in_it_although_its_largest_weight_did_not(tmp_path):
    cell = own_cell("KeepsLargest", "two_inputs", precision=Precision.bf16, **THREE_STEPS)
    measurement = engine.run(cell, tmp_path)
    assert (measurement.precision, judge(cell, measurement)) == ("bf16", None)


def test_a_network_that_changes_the_number_of_threads_in_a_step_is_in_doubt(tmp_path):
    cell = own_cell("Sets", "two_inputs", args={"what": "threads", "when": "step"}, **THREE_STEPS)
    changed = f"the user's code changed the number of threads from {usable_cores()} to {usable_cores() + 1}"
    assert changed in engine.run(cell, tmp_path).warnings


@pytest.mark.parametrize("what", ["matmul", slow("convolutions")])
def test_a_network_that_lets_a_cpu_multiply_in_a_coarser_format_is_in_doubt(tmp_path, what):
    cell = own_cell("Sets", "two_inputs", args={"what": what, "when": "step"}, **THREE_STEPS)
    measurement = engine.run(cell, tmp_path)
    assert judge(cell, measurement) is None
    assert "the user's code lets the device multiply fp32 numbers in a coarser format" in measurement.warnings
