"""PyTorch's global settings, which the user's code may change."""

import pytest

from accelbench.devices.cpu import usable_cores
from accelbench.engines.pytorch import engine, global_state
from accelbench.judging.verdict import judge
from accelbench.schema.vocab import Protocol
from engines.pytorch.test_batches import own_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS, slow

pytestmark = [IGNORES_LIGHTNINGS_WARNINGS, pytest.mark.usefixtures("state_as_before")]


THREE_STEPS = {"protocol": Protocol.steps, "warmup": 1, "steps": 3}
CHANGES = [
    ("matmul", "torch.set_float32_matmul_precision"),
    ("newer", "torch.backends.mkldnn.matmul.fp32_precision"),
    ("cudnn", "torch.backends.cudnn.allow_tf32"),
    ("threads", "torch.set_num_threads"),
    ("deterministic", "torch.use_deterministic_algorithms"),
]


@pytest.mark.parametrize(("what", "name"), [CHANGES[1], *(slow(*change) for change in CHANGES[2:4])])
def test_what_a_network_sets_while_it_is_built_does_not_hold_while_it_is_measured(tmp_path, what, name):
    cell = own_cell("Sets", "two_inputs", args={"what": what}, **THREE_STEPS)
    measurement = engine.run(cell, tmp_path)
    assert judge(cell, measurement) is None
    assert measurement.threads == usable_cores()
    wanted = {**global_state.values_of_a_cell(allow_tf32=False), global_state.DETERMINISTIC: 0}
    now = global_state.snapshot()
    assert {setting: now[setting] for setting in wanted} == wanted


@pytest.mark.parametrize(
    ("what", "name"),
    [*CHANGES[:1], *(slow(*change) for change in CHANGES[1:]), ("dtype", "torch.set_default_dtype")],
)
def test_what_a_network_sets_in_a_step_is_named(tmp_path, what, name):
    cell = own_cell("Sets", "two_inputs", args={"what": what, "when": "step"}, **THREE_STEPS)
    beginning = "the user's code changed"
    warnings = [warning for warning in engine.run(cell, tmp_path).warnings if warning.startswith(beginning)]
    assert len(warnings) == 1
    assert name in warnings[0]
