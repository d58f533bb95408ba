import pytest
import torch
from torch import nn

from accelbench.engines.lightning import networks, zoo
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.workload import ModelSpec

# The counts of study 001's Keras code.
MNIST = (28, 28)
PARAMETERS = {"mlp": 1_195_018, "cnn": 112_074, "rnn": 338_186, "lstm": 1_345_034, "autoencoder": 805_008 + 857_249}


def built(name, args, shape, num_classes):
    return zoo.build(ModelSpec(name=name, args=args), shape, num_classes)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_the_studys(name):
    assert zoo.num_params(built(name, {}, MNIST, 10)) == PARAMETERS[name]


@pytest.mark.parametrize("name", PARAMETERS)
def test_output_has_a_logit_per_class_or_the_images_shape(name):
    images = torch.rand(3, 28, 28)
    output = built(name, {}, MNIST, 10).eval()(images)
    assert output.shape == (images.shape if name == "autoencoder" else (3, 10))


def test_study_002s_network_has_its_parameters_and_one_logit():
    network = built("pets_cnn", {}, (3, 224, 224), 2)
    assert zoo.num_params(network) == 11_177_729
    # Keras counts the running means and variances as well.
    moments = [m.running_mean.numel() + m.running_var.numel() for m in network if isinstance(m, nn.BatchNorm2d)]
    assert zoo.num_params(network) + sum(moments) == 11_178_177
    assert next(layer for layer in network if isinstance(layer, nn.Linear)).in_features == 86_528
    assert network.eval()(torch.rand(2, 3, 224, 224)).shape == (2, 1)


@pytest.mark.parametrize(
    ("args", "num_params"),
    [
        ({}, 8_765_066),
        ({"channels": [128, 256, 512], "hidden": 1472}, 49_729_610),
        ({"channels": [256, 512, 1024], "hidden": 2944}, 198_877_322),
    ],
)
def test_study_003s_network_has_its_parameters_and_so_have_its_sisters(args, num_params):
    assert zoo.num_params(built("scaling_cnn", args, (3, 64, 64), 10)) == num_params


@pytest.mark.parametrize(
    ("widths", "shape", "num_params"),
    [([3000, 1000], (3, 32, 32), 12_230_010), ([500], (28, 28), 397_510), ([500] * 5, (28, 28), 1_399_510)],
)
def test_study_004s_networks_have_its_parameters_and_no_dropout(widths, shape, num_params):
    network = built("mlp", {"widths": widths, "dropout": 0.0}, shape, 10)
    assert zoo.num_params(network) == num_params
    assert not [layer for layer in network if isinstance(layer, nn.Dropout)]


@pytest.mark.parametrize("name", ["mlp", "cnn", "pets_cnn", "scaling_cnn"])
def test_networks_for_images_of_any_shape_take_colour(name):
    assert built(name, {}, (3, 32, 40), 7).eval()(torch.rand(2, 3, 32, 40)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "shape", "told"),
    [
        ("rnn", (3, 32, 32), "model=rnn takes grey images, not 3 x 32 x 32"),
        ("autoencoder", (3, 32, 32), "model=autoencoder takes grey images"),
        ("pets_cnn", (28, 28), "model=pets_cnn takes images in colour of at least 22 x 22 pixels, not 28 x 28"),
        (
            "scaling_cnn",
            (3, 7, 64),
            "model=scaling_cnn takes images in colour of at least 8 x 8 pixels, not 3 x 7 x 64",
        ),
        ("cnn", (3, 16, 16), "model=cnn takes images of at least 24 x 24 pixels, not 16 x 16"),
    ],
)
def test_images_that_a_network_can_not_take_are_refused(name, shape, told):
    with pytest.raises(UnsupportedError, match=told):
        built(name, {}, shape, 10)


def test_the_encoder_and_the_decoder_have_the_studys_parameters():
    network = built("autoencoder", {}, MNIST, 10)
    code_layer = next(i for i, layer in enumerate(network) if isinstance(layer, nn.Linear) and layer.out_features == 16)
    assert zoo.num_params(network[: code_layer + 1]) == 805_008
    assert zoo.num_params(network[code_layer + 1 :]) == 857_249


@pytest.mark.parametrize("name", ["rnn", "lstm"])
def test_the_second_bias_stays_zero_in_training(name):
    network = built(name, {"units": 8}, MNIST, 10)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    network(torch.rand(4, 28, 28)).square().sum().backward()
    optimizer.step()
    for layer in network.layers:
        assert layer.bias_hh_l0.abs().sum() == 0
        assert layer.bias_ih_l0.grad.abs().sum() > 0


def test_initialisers_are_keras_defaults():
    torch.manual_seed(0)
    layer = built("lstm", {}, MNIST, 10).layers[1]
    limit = (6 / (256 + 1024)) ** 0.5  # Glorot uniform on Keras' kernel of shape (256, 4 x 256)
    assert limit * 0.99 < layer.weight_ih_l0.abs().max() <= limit
    torch.testing.assert_close(layer.weight_hh_l0.T @ layer.weight_hh_l0, torch.eye(256), atol=1e-5, rtol=0)
    gates = layer.bias_ih_l0.view(4, 256)
    assert gates[1].eq(1).all()
    assert gates[[0, 2, 3]].eq(0).all()


def test_dropout_of_a_sequence_is_the_same_at_every_step_and_off_in_inference():
    dropout = networks.SequenceDropout(0.5)
    dropped = dropout(torch.ones(64, 5, 32))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert (dropped == dropped[:, :1]).all()
    assert dropout.eval()(torch.ones(2, 3, 4)).eq(1).all()


@pytest.mark.parametrize(("name", "args"), [("vgg", {}), ("mlp", {"widht": 3})])
def test_a_wrong_name_or_argument_is_the_users_error(name, args):
    with pytest.raises(UserError, match="model"):
        built(name, args, MNIST, 10)
