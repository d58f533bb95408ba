"""The engine on colour pictures, decoded in advance or for each batch, and on random images."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from accelbench.data.pictures import convert
from accelbench.data.prepare import describe
from accelbench.engines.pytorch import engine
from accelbench.engines.pytorch.module import augmented
from accelbench.schema.cell import DataSpec, ModelSpec
from accelbench.schema.vocab import Augment, Mode, Pipeline, Protocol
from fakes import make_cell
from marks import IGNORES_LIGHTNINGS_WARNINGS

FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
pytestmark = [IGNORES_LIGHTNINGS_WARNINGS, FORKS]
PETS = ModelSpec(name="pets_cnn", input_shape=(3, 24, 24), num_classes=2)


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    """Pictures of two classes: red or blue, with noise."""
    pictures, folder = tmp_path_factory.mktemp("pictures"), tmp_path_factory.mktemp("pets")
    for number in range(80):
        pixels = np.random.default_rng(number // 2).integers(0, 128, (30, 30, 3), dtype=np.uint8)
        pixels[..., 2 * (number % 2)] += 100
        Image.fromarray(pixels).save(pictures / f"{('cat', 'dog')[number % 2]}.{number // 2}.png")
    describe(replace(convert(pictures, ("cat", "dog"), 24, folder), source="two colours"), "cats_vs_dogs", folder)
    return folder


@pytest.mark.slow
def test_pictures_train_alike_however_they_are_decoded_and_differently_if_varied(pets):
    def trained(pipeline, **more):
        data = DataSpec(name="cats_vs_dogs", pipeline=pipeline, **more)
        fit = {"mode": Mode.train, "protocol": Protocol.fit, "epochs": 3, "batch_size": 16}
        return engine.run(make_cell(model=PETS, data=data, **fit), pets)

    array, jpeg = trained(Pipeline.array), trained(Pipeline.jpeg)
    varied = trained(Pipeline.array, augment=Augment.flip_shift)
    losses, decoded, other = ([epoch.loss for epoch in measured.epochs] for measured in (array, jpeg, varied))
    assert losses[-1] < losses[0]  # one logit learns two classes
    assert array.num_train_samples == 64
    assert decoded == pytest.approx(losses, rel=1e-5)
    assert jpeg.evaluation.accuracy == array.evaluation.accuracy
    assert other != pytest.approx(losses, rel=1e-4)


def test_decoding_for_each_batch_is_seen_as_data_wait(pets):
    cells = [
        make_cell(model=PETS, data=DataSpec(name="cats_vs_dogs", pipeline=pipeline, num_workers=1), batch_size=8)
        for pipeline in (Pipeline.array, Pipeline.jpeg)
    ]
    array, jpeg = (engine.run(cell, pets) for cell in cells)
    assert sum(jpeg.data_s) / sum(jpeg.latency_s) > 5 * sum(array.data_s) / sum(array.latency_s)


def test_the_output_of_training_on_varied_images_is_that_of_a_new_network(pets):
    data = DataSpec(name="cats_vs_dogs", augment=Augment.flip_shift)
    model = ModelSpec(name="mlp", input_shape=(3, 24, 24), num_classes=2, args={"dropout": 0})
    measurement = engine.run(make_cell(model=model, data=data, mode=Mode.train, batch_size=8), pets)
    assert not measurement.defects
    assert "outputs" in measurement.checked


def numbered(num=400, height=16, width=24):
    """Images whose pixels hold their own position, in two channels."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    return torch.stack([rows, columns], -1).to(torch.uint8).expand(num, height, width, 2)


def test_a_flip_mirrors_half_of_the_images_and_a_shift_moves_by_up_to_an_eighth():
    torch.manual_seed(0)
    images = numbered()
    flipped = augmented(images, Augment.flip)
    mirrored = flipped[:, 0, 0, 1] == 23
    assert flipped[mirrored].equal(images[mirrored].flip(2))
    assert flipped[~mirrored].equal(images[~mirrored])
    assert 150 < mirrored.sum() < 250
    middle = augmented(images, Augment.flip_shift)[:, 8, 12].int()
    assert set((middle[:, 0] - 8).tolist()) == set(range(-2, 3))
