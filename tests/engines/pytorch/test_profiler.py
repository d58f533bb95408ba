from accelbench.engines.pytorch import engine
from accelbench.schema.cell import ModelSpec
from accelbench.schema.vocab import Mode
from fakes import make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS

pytestmark = IGNORES_LIGHTNINGS_WARNINGS


def operators(digits, **changes):
    cell = make_cell(**{"mode": Mode.infer, **changes})
    return {operator.name: operator for operator in engine.run(cell, digits).operators}


def test_an_lstm_has_a_fused_kernel_and_an_rnn_has_none(digits):
    lstm = operators(digits, mode=Mode.train, model=ModelSpec(name="lstm", args={"units": 16}))
    rnn = operators(digits, model=ModelSpec(name="rnn", args={"units": 16}))
    for name in ("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"):
        assert lstm[name].num_calls == 3  # one for each layer
    assert "aten::mkldnn_rnn_layer" not in rnn
    assert rnn["aten::addmm"].num_calls >= 3 * 28  # one for each layer and row
    assert 0 < sum(operator.share for operator in lstm.values()) <= 1
