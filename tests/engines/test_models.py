import pytest

from accelbench.engines.models import (
    check_colour,
    check_grey,
    check_size,
    optimizer_named,
    output_shapes,
    own_network,
)
from accelbench.errors import UnknownChoiceError, UnsupportedError, UserError
from accelbench.schema.vocab import Library, ModelOutput, Weights
from accelbench.schema.workload import ModelSpec


def test_a_maker_is_found_by_its_word():
    assert optimizer_named("sgd", {"sgd": dict})(lr=0.1) == {"lr": 0.1}
    assert own_network(ModelSpec(name="wide", network="mlp"), {"mlp": list})() == []


@pytest.mark.parametrize(
    ("find", "words"),
    [
        (lambda: optimizer_named("adagrad", {"adam": dict, "sgd": dict}), "model.optimizer=adagrad: .*adam, sgd"),
        (lambda: own_network(ModelSpec(name="vgg"), {"mlp": list}), "model=vgg: .*Choose from: mlp"),
    ],
)
def test_the_message_about_an_unknown_word_lists_the_choices(find, words):
    with pytest.raises(UnknownChoiceError, match=words):
        find()


def test_accelbenchs_networks_have_no_weights():
    with pytest.raises(UserError, match="model.weights=pretrained: mlp has none"):
        own_network(ModelSpec(name="mlp", weights=Weights.pretrained), {"mlp": list})


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda: check_grey("rnn", (3, 28, 20)), "model=rnn takes grey images, not 3 x 28 x 20"),
        (lambda: check_size("cnn", (24, 23), 24), "at least 24 x 24 pixels, not 24 x 23"),
        (lambda: check_colour("pets_cnn", (28, 28), (28, 28), 22), "images in colour of at least 22 x 22"),
        (lambda: check_colour("pets_cnn", (3, 21, 28), (21, 28), 22), "22 x 22 pixels, not 3 x 21 x 28"),
    ],
)
def test_images_that_a_network_can_not_take_are_refused(check, words):
    with pytest.raises(UnsupportedError, match=words):
        check()


def test_the_output_has_a_row_of_logits_for_each_image():
    assert output_shapes(ModelSpec(name="mlp"), 8, (28, 28), 10) == [(8, 10)]
    assert output_shapes(ModelSpec(name="pets_cnn"), 8, (3, 28, 28), 2) == [(8, 2), (8, 1)]
    assert output_shapes(ModelSpec(name="autoencoder"), 8, (28, 20), 10) == [(8, 28, 20)]
    own = ModelSpec(name="Mine", library=Library.custom, network="nets.Mine", output=ModelOutput.any)
    assert output_shapes(own, 8, (28, 28), 10) is None
