"""Networks of the library transformers: an architecture by its configuration, with random weights.

Nothing is downloaded: the configuration comes from `model.name` and `model.args` alone.
"""

import difflib
from typing import Any

from torch import nn

from accelbench.engines.models import MAX_CHOICES, check_name
from accelbench.errors import UserError
from accelbench.schema.text import message_of
from accelbench.schema.vocab import Task
from accelbench.schema.workload import ModelSpec

# Of transformers: the class that makes the network of each task, and the mapping of the configurations that have it.
CLASSES = {
    Task.classification: ("AutoModelForSequenceClassification", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING"),
    Task.masked_lm: ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING"),
    Task.causal_lm: ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING"),
}
POSITIONS = "position_embeddings"  # the end of such a module's name
# Arguments of every configuration that are not among its fields.
ALSO_KNOWN = ("num_labels", "attn_implementation")


def config_of(model: ModelSpec) -> Any:
    """The configuration, with the settings that a plain forward pass for `model.task` needs.

    Raises:
        UserError: there is no such architecture, argument or value, or it has no such task.
    """
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    check_name(model, list(CONFIG_MAPPING_NAMES))
    default = transformers.CONFIG_MAPPING[model.definition]()
    having = [task.value for task, (_, name) in CLASSES.items() if type(default) in getattr(transformers, name)]
    if not having or not isinstance(getattr(default, "vocab_size", None), int):
        raise UserError(f"model.name={model.definition}: accelbench runs transformers' networks of token ids alone")
    if model.task not in having:
        choices = f"Choose from: {', '.join(having)}."
        raise UserError(f"model.task={model.task}: {model.definition} has no such task. {choices}")
    _check_args(model, default)
    try:
        config = transformers.AutoConfig.for_model(model.definition, **model.args)
    except Exception as error:  # configurations check their values in many ways
        raise UserError(f"model.args: {' '.join(message_of(error).split())}") from error
    config.use_cache = False
    if model.task == Task.causal_lm and hasattr(config, "is_decoder") and not config.is_encoder_decoder:
        config.is_decoder = True  # else BERT and its kin would attend to later tokens
    if config.pad_token_id is None and model.task == Task.classification:
        config.pad_token_id = 0  # without one, decoders classify single samples only
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = config.pad_token_id  # as transformers' own checkpoints of T5 have it
    return config


def _check_args(model: ModelSpec, default: Any) -> None:
    """Raises a UserError with the names near an unknown argument, which transformers would keep in silence."""
    known = sorted({*default.to_dict(), *default.attribute_map, *ALSO_KNOWN} - {"model_type", "transformers_version"})
    for name in model.args:
        if name not in known:
            near = ", ".join(difflib.get_close_matches(name, known, n=MAX_CHOICES, cutoff=0.4) or known[:MAX_CHOICES])
            why = f"{model.definition}'s configuration has no such argument. Near it: {near}."
            raise UserError(f"model.args.{name}: {why}")


def build(model: ModelSpec) -> nn.Module:
    """The network, its weights drawn from torch's generator.

    Raises:
        UserError: as `config_of` does, or values of the configuration that do not go together.
    """
    import transformers

    config = config_of(model)
    assert model.task is not None, "conf/model/transformers.yaml gives one"
    try:
        network: nn.Module = getattr(transformers, CLASSES[model.task][0]).from_config(config)
    except (ValueError, AttributeError, ImportError) as error:
        raise UserError(f"model.args: {model.definition}: {' '.join(message_of(error).split())}") from error
    return network


def check_seq_len(model: ModelSpec, config: Any, network: nn.Module | None = None) -> None:
    """Raises a UserError if sequences are longer than the network's positions.

    RoBERTa and its kin count positions from after the padding's, which the `network` shows once it is built.
    """
    num, seq_len = getattr(config, "max_position_embeddings", None), model.batch_args["seq_len"]
    if not isinstance(num, int) or num < 1:
        return
    tables = [] if network is None else [each for name, each in network.named_modules() if name.endswith(POSITIONS)]
    paddings = [table.padding_idx for table in tables if getattr(table, "padding_idx", None) is not None]
    num -= max(paddings, default=-1) + 1
    if seq_len > num:
        raise UserError(
            f"model.batch_args.seq_len={seq_len}: {model.definition} has {num} positions: use at most {num}, or "
            "another model.args.max_position_embeddings"
        )
