"""The networks, compared with their twins of the Lightning engine. Another process has written those results."""

import numpy as np
import pytest

from accelbench.engines.keras import networks
from accelbench.errors import UserError
from accelbench.schema.cell import ModelSpec, Precision
from engines.keras.cells import give
from engines.keras.twins import CASES, NUM, images, num_classes
from marks import slow


@pytest.fixture(autouse=True)
def _fp32():
    networks.set_policy(Precision.fp32)


@pytest.mark.parametrize("case", [slow(case) if case in ("mlp_in_colour", "cnn") else case for case in CASES])
def test_a_network_is_its_twin(twins, case):
    name, args, shape = CASES[case]
    spec = ModelSpec(name=name, args=args)
    network = networks.build(spec, shape, num_classes(name))
    give(network, twins, case)
    model, pixels, output = networks.model_of(network, "uint8"), images(shape), twins[f"{case}/output"]
    np.testing.assert_allclose(model(pixels, training=False), output, atol=1e-4)
    model.compile(loss=networks.loss_of(spec, network, "uint8"), metrics=networks.metrics_of(spec, network))
    labels = (np.arange(NUM) % num_classes(name)).astype(np.int32)
    results = model.evaluate(pixels, pixels if name == "autoencoder" else labels, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(float(twins[f"{case}/loss"]), rel=1e-4)
    if name != "autoencoder":
        answers = output[:, 0] > 0 if output.shape[1] == 1 else output.argmax(1)
        assert results["accuracy"] == pytest.approx((answers == labels).mean())
    assert network.count_params() == twins[f"{case}/params"]
    for train in (False, True):
        assert networks.count(network, NUM, train=train).flops == twins[f"{case}/flops{int(train)}"]


def test_a_wrong_argument_of_a_layer_is_the_users_error():
    with pytest.raises(UserError, match="model.args: "):
        networks.build(ModelSpec(name="mlp", args={"dropout": "much"}), (28, 28), 10)
