"""Cells of the Keras engine, and networks with PyTorch's weights. Tests and their child processes use them."""

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from unittest.mock import patch

from keras import layers

from accelbench.engines.keras import engine, networks
from accelbench.judging.verdict import judge
from accelbench.schema.cell import Engine, KerasSettings
from engines.cells import FIT, MLP
from fakes import make_cell


def elsewhere(function, *args, **environment):
    """Calls the function in a new process and returns its result. TensorFlow and torch never share a process."""
    with patch.dict(os.environ, environment), ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(function, *args).result()


def as_keras(cell, **keras):
    return replace(cell, engine=Engine.keras, keras=KerasSettings(**keras))


def keras_cell(keras=None, **changes):
    return as_keras(make_cell(**changes), **(keras or {}))


def trained(**changes):
    """A cell with protocol=fit and a short last batch, which two devices can share."""
    return keras_cell(**FIT | {"model": replace(MLP, optimizer="adam", learning_rate=1e-3), "epochs": 2, **changes})


def with_weights_of(twins, case):
    """Replaces `networks.network_of`: returns the network with the weights of its twin."""
    drawn = networks.network_of

    def network_of(*args):
        network = drawn(*args)
        give(network, twins, case)
        return network

    return network_of


def give(network, twins, case):
    """Copies PyTorch's weights into Keras' layers. twins.py has written them in the order of the layers."""
    tensors, flat = (twins[name] for name in twins if name.startswith(f"{case}/weight")), None
    for layer in network.layers:
        if isinstance(layer, layers.Flatten) and len(layer.input.shape) == 4:
            flat = layer.input.shape[1:]
        kinds = (layers.Dense, layers.Conv2D, layers.SimpleRNN, layers.LSTM, layers.BatchNormalization)
        if not isinstance(layer, kinds):
            continue
        mine = [next(tensors) for _ in layer.weights]
        if isinstance(layer, layers.Conv2D):
            mine[0] = mine[0].transpose(2, 3, 1, 0)
        elif isinstance(layer, layers.Dense) and flat and network.name != "autoencoder":
            # PyTorch flattens images with the channels first.
            height, width, channels = flat
            mine[0] = mine[0].reshape(-1, channels, height, width).transpose(2, 3, 1, 0).reshape(-1, layer.units)
        elif not isinstance(layer, layers.BatchNormalization):
            mine[:-1] = [tensor.T for tensor in mine[:-1]]
        if isinstance(layer, layers.Dense):
            flat = None
        layer.set_weights(mine)
    assert next(tensors, None) is None


def on_two_devices(digits):
    cell = trained(devices=2)
    backend = engine.Backend(cell)
    run = engine.Run(cell, digits, backend)
    measured = run.measure()
    weights = [backend.parts_of(weight) for weight in run.model.trainable_weights]
    devices = sorted({part.device for parts in weights for part in parts})
    return judge(cell, measured), measured, [[part.numpy() for part in parts] for parts in weights], devices
