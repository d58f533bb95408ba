"""Code that engines share: words of networks, optimisers and precisions, and the samples of feeds."""

from pathlib import Path

import pytest

from accelbench.engines import images
from accelbench.engines.cell_run import BaseBackend, CellRun
from accelbench.engines.networks import layers_of
from accelbench.errors import UnknownChoiceError, UnsupportedError, UserError
from accelbench.measuring.checks import FORMATS, word_for
from accelbench.schema.cell import SHAPES, ModelSpec, Precision, Protocol, Weights
from engines.cells import RANDOM
from fakes import make_cell


def test_what_can_not_be_had_is_refused():
    with pytest.raises(UnknownChoiceError, match=r"adagrad: .*adam, sgd"):
        images.optimizer_named("adagrad", {"adam": 1, "sgd": 1})
    with pytest.raises(UnknownChoiceError, match=r"model=vgg: .*from: mlp"):
        layers_of(ModelSpec(name="vgg"), (28, 28), 10, {})
    with pytest.raises(UserError, match=r"model.weights=pretrained: mlp has no trained weights"):
        layers_of(ModelSpec(name="mlp", weights=Weights.pretrained), (28, 28), 10, {})
    with pytest.raises(UnsupportedError, match="^protocol=fit: random images have no epochs: use protocol=window or s"):
        CellRun(make_cell(data=RANDOM, protocol=Protocol.fit), Path(), BaseBackend())


@pytest.mark.parametrize(
    ("model", "shape", "message"),
    [
        ("rnn", (3, 28, 20), "model=rnn accepts images in grey, not 3 x 28 x 20: use data=mnist"),
        ("cnn", (24, 23), "model=cnn accepts images of at least 24 x 24 pixels, not 24 x 23: use data=mnist"),
        ("pets_cnn", (28, 28), "in colour of at least 22 x 22 pixels, not 28 x 28: use data=cats_vs_dogs"),
        ("pets_cnn", (3, 21, 28), "not 3 x 21 x 28: use data=cats_vs_dogs"),
        ("scaling_cnn", (3, 4, 4), "at least 8 x 8 pixels, not 3 x 4 x 4: use data=random"),
    ],
)
def test_images_that_a_network_does_not_take_are_told_with_data_that_it_does(model, shape, message):
    spec = ModelSpec(name=model)
    with pytest.raises(UnsupportedError, match=message):
        images.check_fits(spec, shape)
    assert images.why_unfit(spec, shape, "random").endswith("use another model.input_shape")
    assert images.why_unfit(spec, SHAPES.get(images.TAKES[model].data, (3, 64, 64))) is None


def test_a_precision_is_recognised_by_its_formats_and_others_are_described():
    for precision in Precision:
        assert word_for(*FORMATS[precision], tf32=precision == Precision.tf32) == precision
    assert word_for("float64", "float32", tf32=False) == "weights float64, computed in float32"
    assert word_for("float32", "bfloat16", tf32=True) == Precision.bf16_mixed  # only fp32 can be tf32
