"""Stand-ins are learnable, and not by a linear model: what is measured on them means something."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from accelbench.data.arrays import load_split
from accelbench.data.obtain import Obtained, Target
from accelbench.data.prepare import describe
from accelbench.data.registry import find
from accelbench.isolation.hosts import Hosts
from accelbench.schema.vocab import Mode, Protocol, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SETTINGS = {"cats_vs_dogs": {"image_size": 64, "max_images": 1_000_000}}


@pytest.fixture(scope="module", params=["cats_vs_dogs", "cifar10", "fashion_mnist"])
def stand_in(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    data_set = find(request.param)
    data_set.stand_in(Target(folder, SETTINGS.get(request.param, {})))
    describe(Obtained(classes=data_set.classes, source="a stand-in"), request.param, folder)
    return request.param, folder


def linear_accuracy(folder, most=4_000):
    train, test = (load_split(folder, split) for split in ("train", "test"))
    scaler = StandardScaler()
    inputs = scaler.fit_transform(train.images[:most].reshape(len(train.images[:most]), -1).astype(np.float32))
    model = LogisticRegression(C=1e-3, max_iter=200).fit(inputs, train.labels[:most])
    return model.score(scaler.transform(test.images.reshape(len(test.images), -1).astype(np.float32)), test.labels)


def network_accuracy(name, folder, model, epochs):
    cell = make_cell(
        model=ModelSpec(name=model),
        data=DataSpec(name=name),
        mode=Mode.train,
        protocol=Protocol.fit,
        epochs=epochs,
        batch_size=32,
        timeout_s=1_500,
    )
    with Hosts() as hosts:
        outcome = hosts.run(cell, folder)
    assert outcome.status == Status.ok, outcome.reason
    return outcome.measurement.evaluation.accuracy


def test_a_convolutional_network_learns_it_and_a_linear_model_does_not(stand_in):
    name, folder = stand_in
    assert linear_accuracy(folder) < (0.8 if name != "fashion_mnist" else 0.97)
    model, epochs = ("pets_cnn", 10) if name == "cats_vs_dogs" else ("cnn", 6)
    assert network_accuracy(name, folder, model, epochs) > (0.95 if name == "cats_vs_dogs" else 0.9)
