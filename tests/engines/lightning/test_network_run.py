"""Plain networks in Lightning's own loop, beside the same cells of engine=pytorch."""

from dataclasses import replace

import pytest

from accelbench.engines.lightning import engine
from accelbench.engines.pytorch import engine as pytorch
from accelbench.judging.verdict import judge
from accelbench.schema.vocab import Engine, Mode, Phase, Precision, Protocol
from accelbench.schema.workload import ModelSpec
from engines.lightning.test_module_run import pytestmark  # noqa: F401
from engines.pytorch.test_batches import own_cell
from fakes import make_cell
from marks import slow

MLP = ModelSpec(name="mlp", args={"widths": [32]}, optimizer="sgd", learning_rate=0.05)  # with dropout
STEPS = {"protocol": Protocol.steps, "warmup": 2, "steps": 10, "breakdown_s": 0.0}


def cell(**changes):
    return make_cell(**{"engine": Engine.lightning, "model": MLP, "mode": Mode.train, **STEPS, **changes})


def measured(folder, **changes):
    asked = cell(**changes)
    found = engine.run(asked, folder)
    assert (judge(asked, found), found.warnings) == (None, [])
    return found


@pytest.mark.parametrize(
    "precision", [*map(slow, (Precision.fp64, Precision.fp16_mixed)), "bf16", "fp32", "bf16_mixed"]
)
def test_it_trains_as_the_bare_loop(digits, precision):
    asked = cell(precision=Precision(precision))
    found, expected = measured(digits, precision=Precision(precision)), pytorch.run(asked, digits)
    assert (found.loss, found.precision) == (pytest.approx(expected.loss, rel=1e-6), precision)
    assert (found.work, found.num_steady_samples) == (expected.work, expected.num_steady_samples)


@pytest.mark.parametrize("mode", [Mode.train, Mode.infer])
def test_it_has_its_phases_and_its_output_is_compared(digits, mode):
    found = measured(digits, mode=mode, breakdown_s=0.02, precision=Precision.bf16)
    phases = {phase for phase, seconds in found.breakdown.phases_s.items() if sum(seconds) > 0}
    of_training = {Phase.backward, Phase.optimizer} if mode == Mode.train else set()
    assert {Phase.data_wait, Phase.copy_in, Phase.forward, Phase.framework} | of_training <= phases
    assert found.operators
    assert mode == Mode.train or found.output_error < 0.1


def test_batches_of_the_users_own(tmp_path):
    asked = own_cell("Tokens", "tokens", "token_loss", engine=Engine.lightning)
    assert judge(asked, engine.run(asked, tmp_path)) is None


def test_a_network_that_needs_gradients_infers(tmp_path):
    asked = own_cell("Tokens", "tokens", engine=Engine.lightning)
    asked = replace(asked, model=replace(asked.model, network="honest.networks.Pull", batch="honest.networks.vectors"))
    found = engine.run(asked, tmp_path)
    assert judge(asked, found) is None
    assert any("inference ran in" in note for note in found.notes)
