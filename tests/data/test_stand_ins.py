"""Stand-ins are the same on every run, and a network learns them."""

import numpy as np
import pytest

from accelbench.data.arrays import load_split
from accelbench.data.obtain import Obtained, Target, find
from accelbench.data.prepare import describe
from accelbench.data.stand_ins import draw, save_drawn
from accelbench.isolation.hosts import Hosts
from accelbench.schema.vocab import Mode, Protocol, Status
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell


@pytest.mark.parametrize(("in_colour", "shape"), [(False, (20, 28, 28)), (True, (20, 28, 28, 3))])
def test_drawings_are_the_same_each_time_and_differ_from_each_other(tmp_path, in_colour, shape):
    found = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        save_drawn(tmp_path / name, 28, in_colour=in_colour, nums={"train": 20, "test": 10})
        found.append(load_split(tmp_path / name, "train"))
    assert found[0].images.shape == shape
    assert np.array_equal(found[0].images, found[1].images)
    assert found[0].labels.tolist() == [*range(10), *range(10)]
    assert len({image.tobytes() for image in (*found[0].images, *load_split(tmp_path / "one", "test").images)}) == 30


def test_a_digit_fills_most_of_the_picture():
    shares = [(draw(8, 64, np.random.default_rng(seed), in_colour=False) > 100).mean() for seed in range(20)]
    assert 0.04 < min(shares) <= max(shares) < 0.5


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "model", "epochs"), [("cats_vs_dogs", "pets_cnn", 10), ("fashion_mnist", "cnn", 4)])
def test_a_network_learns_it(name, model, epochs, tmp_path):
    data_set = find(name)
    data_set.stand_in(Target(tmp_path, {"image_size": 64, "max_images": 2_500}))
    describe(Obtained(classes=data_set.classes, source="a stand-in"), name, tmp_path)
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
        outcome = hosts.run(cell, tmp_path)
    assert outcome.status == Status.ok, outcome.reason
    assert outcome.measurement.evaluation.accuracy > 0.9
