"""Builds networks of accelbench, timm, torchvision, transformers or the user.

accelbench's networks (`engines/networks.py`) use Keras' initialisers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from accelbench.engines.images import Shape, check_fits, check_name
from accelbench.engines.networks import layers_of
from accelbench.engines.pytorch import weights
from accelbench.engines.targets import check_call, import_target, lightning_package
from accelbench.errors import UnsupportedError, UserError
from accelbench.schema.cell import Library, ModelSpec, Task, Weights

# Task -> names in transformers: the class that makes the network, and the mapping of configurations with this task.
CLASSES: dict[Task | None, tuple[str, str]] = {
    Task.classification: ("AutoModelForSequenceClassification", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING"),
    Task.masked_lm: ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING"),
    Task.causal_lm: ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING"),
}
# Arguments that every configuration accepts, although they are not among its fields.
ALSO_KNOWN = {"num_labels", "attn_implementation"}


def build(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    """Builds the network of `model`. Its weights are random (torch's generator), pretrained, or from the user's file.

    Raises UserError if the network or one of its arguments is unknown, or if the weights can't be loaded. Raises
    UnsupportedError if the network does not accept images of this shape.
    """
    without_file = model if model.weights_file is None else replace(model, weights=Weights.none.value)
    try:
        network = BUILDERS[model.library](without_file, shape, num_classes)
    except TypeError as error:
        # The arguments were checked, so the error comes from the user's class.
        if model.library == Library.custom:
            raise
        raise UserError(f"model.args: {error}") from error
    if model.weights_file is not None:
        weights.load(network, model.weights_file)
    return network


def check_trainable(network: nn.Module, model: ModelSpec) -> None:
    """Raises UnsupportedError if `network` is a LightningModule, whose training step this engine would not run."""
    if model.library != Library.lightning and lightning_package(type(network), "LightningModule"):
        raise UnsupportedError(
            f"model={model.name} is a LightningModule, but this engine would not run its training_step: use "
            "model=lightning, which runs it, or mode=infer"
        )


def num_params(network: nn.Module) -> int:
    """Returns the number of trainable parameters, plus the number of `KerasBatchNorm` statistics, as in study 002."""
    statistics = sum(
        2 * layer.num_features for layer in network.modules() if isinstance(layer, KerasBatchNorm)
    )
    return statistics + sum(
        parameter.numel() for parameter in network.parameters() if parameter.requires_grad
    )


def _own(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    network = nn.Sequential(*layers_of(model, shape, num_classes, LAYERS))
    return materialised(network, lambda lazy: lazy(torch.zeros(1, *shape))).apply(initialise_as_keras)


def _timm(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    import timm

    check_name(model, timm.list_models())
    in_colour = len(shape) == 3
    args = {"in_chans": shape[0] if in_colour else 1, "num_classes": num_classes, **model.args}
    network: nn.Module = timm.create_model(model.definition, pretrained=model.weights != Weights.none, **args)
    # Grey images have no channel axis, so one is added.
    return network if in_colour else nn.Sequential(nn.Unflatten(1, (1, shape[0])), network)


def _torchvision(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    from torchvision import models

    check_name(model, models.list_models(module=models))  # only networks that classify images
    check_fits(model, shape)
    network: nn.Module
    if model.weights == Weights.none:
        network = models.get_model(model.definition, weights=None, num_classes=num_classes, **model.args)
        return network
    # Without `num_classes`: pretrained weights fix the number of classes. torchvision verifies what it downloads.
    network = models.get_model(model.definition, weights="DEFAULT", **model.args)
    return network


def config_of(model: ModelSpec) -> Any:
    """Makes the configuration of a network that does `model.task` in a forward pass without a cache.

    Raises UserError if transformers lacks the architecture, if the architecture lacks an argument of `model.args`, or
    if the architecture can't do the task with token ids as inputs.
    """
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    name = model.definition
    check_name(model, list(CONFIG_MAPPING_NAMES))
    default = transformers.CONFIG_MAPPING[name]()
    if not hasattr(default, "vocab_size"):
        raise UserError(
            f"model.name={name}: its configuration has no vocab_size for token ids: use another model.name"
        )
    if type(default) not in getattr(transformers, CLASSES[model.task][1]):
        raise UserError(f"model.task={model.task}: {name} can't do this task: use another model.task")
    arguments = {*default.to_dict(), *default.attribute_map, *ALSO_KNOWN} - {
        "model_type",
        "transformers_version",
    }
    for name_of_argument in model.args:
        if name_of_argument not in arguments:  # transformers would accept it without an error
            raise UserError(f"model.args.{name_of_argument}: {name}'s configuration has no such argument")
    config = transformers.AutoConfig.for_model(name, **model.args)
    if not isinstance(config.vocab_size, int):
        raise UserError(f"model.args.vocab_size: {name} has no default: set it to the number of token ids")
    config.use_cache = False
    if model.task == Task.causal_lm and hasattr(config, "is_decoder") and not config.is_encoder_decoder:
        config.is_decoder = True  # otherwise BERT and similar networks would attend to later tokens
    if getattr(config, "pad_token_id", None) is None and model.task == Task.classification:
        config.pad_token_id = 0  # without this id, decoders can't classify batches of several samples
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = config.pad_token_id  # as in the checkpoints of T5
    return config


def _transformers(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    import transformers

    network: nn.Module = getattr(transformers, CLASSES[model.task][0]).from_config(config_of(model))
    return network


def _custom(model: ModelSpec, shape: Shape, num_classes: int) -> nn.Module:
    kind = import_target(model, nn.Module, "torch.nn.Module")
    check_call(f"model.args: {model.definition}, with its model.args.NAME=VALUE", kind, **model.args)
    network = kind(**model.args)
    if not isinstance(network, nn.Module):
        name = type(network).__name__
        raise UserError(f"model.target={model.definition}: should make a torch.nn.Module, not a {name}")
    return with_modes(network)


class Modeless(nn.Module):
    """Wraps a module without training and evaluation modes, such as a frozen or an exported module."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.network(*args, **kwargs)

    def train(self, mode: bool = True) -> Self:
        return self


def with_modes(network: nn.Module) -> nn.Module:
    """Returns the network, wrapped in `Modeless` if its mode can't be set."""
    for layer in network.modules():
        if not hasattr(layer, "training"):  # a frozen module; Lightning reads the mode
            vars(layer)["training"] = False
    modes = modes_of(network)
    takes_modes = True
    try:
        network.train(network.training)
    except Exception:  # TorchScript raises AttributeError, torch.export NotImplementedError
        takes_modes = False
    set_modes(network, modes)  # restores modes that its constructor has set
    return network if takes_modes else Modeless(network)


def has_mode(layer: nn.Module) -> bool:
    """Returns True if the layer has a training and an evaluation mode. Frozen and exported modules do not."""
    return not isinstance(layer, Modeless | torch.jit.ScriptModule | torch.fx.GraphModule) and hasattr(
        layer, "training"
    )


def modes_of(network: nn.Module) -> list[bool]:
    """For each layer, whether it is in training mode."""
    return [getattr(layer, "training", False) for layer in network.modules()]


def set_modes(network: nn.Module, modes: Sequence[bool]) -> None:
    """Sets the mode of each layer. `modes` is the result of `modes_of` for a network with the same layers.

    If the number of layers differs, does nothing.
    """
    layers = list(network.modules())
    if len(layers) != len(modes):
        return
    for layer, training in zip(layers, modes, strict=True):
        if has_mode(layer):
            layer.training = training


def materialised(network: nn.Module, run: Callable[[nn.Module], object]) -> nn.Module:
    """Returns the network. If it has lazy layers, first creates their weights: `run` feeds one batch to the network."""
    tensors = [*network.parameters(), *network.buffers()]
    if any(is_lazy(tensor) for tensor in tensors):
        modes = modes_of(network)
        with torch.no_grad():
            run(network.eval())
        set_modes(network, modes)
    return network


BUILDERS: Mapping[Library, Callable[[ModelSpec, Shape, int], nn.Module]] = {
    Library.accelbench: _own,
    Library.timm: _timm,
    Library.torchvision: _torchvision,
    Library.transformers: _transformers,
    Library.custom: _custom,
}


def check_logits(output: object, model: ModelSpec, num_classes: int) -> None:
    """Raises UserError if an output is not logits of shape (batch, num_classes); two classes may share one logit."""
    shape = tuple(output.shape) if isinstance(output, Tensor) else ()
    if len(shape) != 2 or shape[1] not in ((2, 1) if num_classes == 2 else (num_classes,)):
        shown = shape or f"a {type(output).__name__}"
        raise UserError(
            f"model={model.name}: its output should be logits (batch, {num_classes}), not {shown}. For random images, "
            "set model.num_classes. For inference, set model.output=any, which accepts any output"
        )


class KerasBatchNorm(nn.BatchNorm2d):
    """Batch normalisation with Keras' defaults."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels, eps=1e-3, momentum=0.01)  # Keras' momentum 0.99 is 1 minus PyTorch's


class Recurrent(nn.Module):
    """A recurrent layer with dropout on its input. As in Keras, all time steps of a sample get the same mask.

    A recurrent layer of Keras has only one bias. Therefore PyTorch's second bias, `bias_hh`, stays 0. It is neither
    trained nor counted.
    """

    def __init__(self, kind: Any, inputs: int, units: int, dropout: float, returns_all: bool) -> None:
        super().__init__()
        self.layer = kind(inputs, units, batch_first=True)
        self.dropout, self.returns_all = dropout, returns_all

    def forward(self, sequence: Tensor) -> Tensor:
        if self.training and self.dropout:
            mask = torch.ones_like(sequence[:, :1])
            sequence = sequence * nn.functional.dropout(mask, self.dropout)
        outputs: Tensor = self.layer(sequence)[0]
        return outputs if self.returns_all else outputs[:, -1]


LAYERS: Mapping[str, Callable[..., nn.Module]] = {
    "channel": lambda height, width: nn.Unflatten(1, (1, height)),
    "convolution": lambda channels, padding: nn.LazyConv2d(channels, 3, padding=padding),
    "dense": nn.LazyLinear,
    "dropout": nn.Dropout,
    "flatten": nn.Flatten,
    "lstm": partial(Recurrent, nn.LSTM),
    "normalisation": KerasBatchNorm,
    "pool": lambda: nn.MaxPool2d(2),
    "relu": nn.ReLU,
    "reshape": lambda *shape: nn.Sequential(nn.Flatten(), nn.Unflatten(1, shape)),
    "rnn": partial(Recurrent, nn.RNN),
}


def initialise_as_keras(module: nn.Module) -> None:
    """Draws the weights of a layer with Keras' initialisers.

    Kernels are Glorot uniform. Recurrent kernels are orthogonal. Biases are 0, but the biases of forget gates are 1.
    """
    if isinstance(module, nn.Linear | nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    if isinstance(module, nn.RNNBase):
        for name, parameter in module.named_parameters():
            if name.startswith("weight_ih"):
                nn.init.xavier_uniform_(parameter)
            elif name.startswith("weight_hh"):
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)
            if name.startswith("bias_ih") and isinstance(module, nn.LSTM):
                # PyTorch's order of gates: input, forget, cell, output.
                nn.init.ones_(parameter.data[module.hidden_size : 2 * module.hidden_size])
            if name.startswith("bias_hh"):
                parameter.requires_grad_(False)
