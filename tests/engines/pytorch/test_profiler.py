import torch

from accelbench.engines.pytorch import engine
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.work import busiest
from accelbench.measuring.runner import Runner
from accelbench.schema.vocab import Mode
from accelbench.schema.workload import ModelSpec
from fakes import make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS

pytestmark = IGNORES_LIGHTNINGS_WARNINGS


def operators(digits, **changes):
    cell = make_cell(**{"mode": Mode.infer, **changes})
    return {each.name: each for each in engine.run(cell, digits).operators}


def test_an_lstm_has_a_fused_kernel_and_an_rnn_has_none(digits):
    lstm = operators(digits, mode=Mode.train, model=ModelSpec(name="lstm", args={"units": 16}))
    rnn = operators(digits, model=ModelSpec(name="rnn", args={"units": 16}))
    for name in ("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"):
        assert lstm[name].num_calls == 3  # one for each layer
    assert "aten::mkldnn_rnn_layer" not in rnn
    assert rnn["aten::addmm"].num_calls >= 3 * 28  # one for each layer and row


class Product:
    """A step whose product takes most of its time."""

    def fetch(self):
        return torch.ones(1500, 1500)

    def copy_in(self, batch):
        return batch

    def compute(self, batch):
        return (batch @ batch).relu_().sum()


def busiest_of(backend):
    return Runner(Product(), backend.wait).drive(busiest(backend))


def test_times_are_the_operators_own_and_their_shares_are_of_all():
    busiest_of(Backend())  # the first product of a process takes longer
    found = busiest_of(Backend())
    assert found[0].name == "aten::mm"  # and not aten::matmul, which calls it
    assert found[0].num_calls == 1
    assert 0 < found[0].share < 1
    assert sum(each.share for each in found) <= 1
    assert [each.share for each in found] == sorted((each.share for each in found), reverse=True)
    backend = Backend()
    backend.torch_type = "tpu"
    assert busiest_of(backend) == []
