"""Builds networks of the library transformers with random weights, and batches of random tokens for them.

Nothing is downloaded. `model.name` and `model.args` define the configuration of a network.
"""

from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.images import check_name
from accelbench.errors import UserError
from accelbench.schema.cell import Cell, ModelSpec
from accelbench.schema.vocab import Mode, Task

# Task -> names in transformers: the class that makes the network, and the mapping of configurations with this task.
CLASSES: dict[Task | None, tuple[str, str]] = {
    Task.classification: ("AutoModelForSequenceClassification", "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING"),
    Task.masked_lm: ("AutoModelForMaskedLM", "MODEL_FOR_MASKED_LM_MAPPING"),
    Task.causal_lm: ("AutoModelForCausalLM", "MODEL_FOR_CAUSAL_LM_MAPPING"),
}
# Arguments that every configuration accepts, although they are not among its fields.
ALSO_KNOWN = {"num_labels", "attn_implementation"}
LABELLED = 0.15  # share of tokens that a masked language model predicts in training, as in BERT
NO_LABEL = -100  # label of tokens without a loss, in transformers


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
        raise UserError(f"model.name={name}: its configuration has no vocab_size for token ids: use another model.name")
    if type(default) not in getattr(transformers, CLASSES[model.task][1]):
        raise UserError(f"model.task={model.task}: {name} can't do this task: use another model.task")
    arguments = {*default.to_dict(), *default.attribute_map, *ALSO_KNOWN} - {"model_type", "transformers_version"}
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


def build(model: ModelSpec) -> nn.Module:
    """Builds the network with random weights from torch's generator. Raises the same errors as `config_of`."""
    import transformers

    network: nn.Module = getattr(transformers, CLASSES[model.task][0]).from_config(config_of(model))
    return network


class TokenMaker:
    """Makes batches of random token ids.

    No token is padding or the end of a text, because networks treat such tokens differently. But for an encoder-decoder
    network, the last token of a sequence is the end of a text. A sequence has `length` tokens; if `length` is None, it
    has `model.batch_args.seq_len` tokens. A batch has an attention mask of ones, but a batch of prompts has no mask.

    In training, a batch has labels, from which the network computes its loss. Labels are class indices or token ids,
    as the task needs them.

    Raises UserError if a sequence has more tokens than the network accepts.
    """

    def __init__(self, cell: Cell, batch_size: int, length: int | None = None) -> None:
        self.task = cell.model.task
        self.mode = cell.mode
        self.batch_size = batch_size
        self.num_counted = batch_size
        self.config = config_of(cell.model)
        config = self.config
        self.tokens_per_sample: int = length or cell.model.batch_args["seq_len"]
        flag = f"model.batch_args.seq_len={self.tokens_per_sample}"
        num = self.tokens_per_sample
        if cell.mode == Mode.generate:
            num = cell.generate.prompt_tokens + cell.generate.new_tokens
            flag = f"generate.prompt_tokens and generate.new_tokens: together {num}"
        most = getattr(config, "max_position_embeddings", None)
        if isinstance(most, int) and 0 < most < num:
            raise UserError(f"{flag}: {cell.model.definition} accepts at most {most} tokens: use fewer tokens")
        self.end = _ids(config, "eos_token_id")
        special = {*_ids(config, "pad_token_id"), *self.end}
        self.usable = torch.tensor([token for token in range(config.vocab_size) if token not in special])

    def __call__(self) -> dict[str, Tensor]:
        """Makes another batch, in host memory."""
        num, length = self.batch_size, self.tokens_per_sample
        ids = self.usable[torch.randint(len(self.usable), (num, length))]
        if self.config.is_encoder_decoder and self.end:
            ids[:, -1] = self.end[0]  # encoder-decoder networks classify the token at the end of a text
        batch = {"input_ids": ids}
        if self.mode != Mode.generate:  # prompts have no padding, so they need no mask
            batch["attention_mask"] = torch.ones_like(ids)
        if self.mode == Mode.train:
            batch["labels"] = self._labels(ids)
        return batch

    def _labels(self, ids: Tensor) -> Tensor:
        if self.task == Task.causal_lm:
            return ids.clone()
        if self.task == Task.masked_lm:
            labelled = torch.rand(ids.shape) < LABELLED
            labelled[:, 0] = True  # a batch without labels would have no loss
            return torch.where(labelled, ids, NO_LABEL)
        return torch.randint(self.config.num_labels, (len(ids),))


def _ids(config: Any, name: str) -> list[int]:
    """Returns the token ids in the field `name` of the configuration. The field may be missing, one id, or a list."""
    ids = getattr(config, name, None)
    if ids is None:
        return []
    return [ids] if isinstance(ids, int) else list(ids)
