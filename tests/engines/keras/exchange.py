"""PyTorch's weights, as twins.py wrote them, in Keras' layers."""

from keras import layers


def give(network, tensors):
    """Puts PyTorch's weights, in its layers' order, into Keras' layers."""
    tensors, flat = iter(tensors), None
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
            # PyTorch flattens images with their channels first.
            height, width, channels = flat
            mine[0] = mine[0].reshape(-1, channels, height, width).transpose(2, 3, 1, 0).reshape(-1, layer.units)
        elif not isinstance(layer, layers.BatchNormalization):
            mine[:-1] = [tensor.T for tensor in mine[:-1]]
        if isinstance(layer, layers.Dense):
            flat = None
        layer.set_weights(mine)
    assert next(tensors, None) is None


def weights(twins, case):
    return [twins[name] for name in twins.files if name.startswith(f"{case}/weight")]
