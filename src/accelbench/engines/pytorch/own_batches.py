"""A network on batches of the user's (`model.batch`), or one of the library transformers on random token ids."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import SystemRandom
from typing import Any

import torch
from torch import Tensor, nn

from accelbench.engines.pytorch import structure, zoo
from accelbench.engines.pytorch.architectures import TokenMaker
from accelbench.engines.pytorch.backends import Backend
from accelbench.engines.pytorch.feed import DrawnFeed, pins
from accelbench.engines.pytorch.global_state import seed_generators
from accelbench.engines.pytorch.module import Loss
from accelbench.engines.pytorch.precision import STORED_DTYPES, cast_tensor
from accelbench.engines.pytorch.ranks import RANK_SEEDS, Ranks
from accelbench.engines.pytorch.structure import is_same, mapped, num_rows, tensors_in, varied
from accelbench.engines.pytorch.training import AsItIs
from accelbench.engines.served import NUM_DRAWN
from accelbench.engines.targets import check_call, import_path
from accelbench.errors import UserError
from accelbench.schema.cell import Cell
from accelbench.schema.ranges import MAX_COUNT
from accelbench.schema.text import beginning, one_line
from accelbench.schema.vocab import Pipeline
from accelbench.schema.workload import ModelSpec

MAX_SHOWN = 60  # characters of what a user's function returned


def tensors_of(should: str, batch: Any) -> list[Tensor]:
    """The tensors of a batch; a UserError, which begins with `should`, if it has no tensor."""
    tensors = list(tensors_in(batch))
    if not tensors:
        raise UserError(f"{should} a tensor, a tuple or a mapping of tensors, not a {type(batch).__name__}")
    return tensors


def check_joined(flag: str, pool: Sequence[Any], whole: Any, num_samples: int) -> None:
    """Raises a UserError if batches of one sample can't be joined into one like `whole`, tensor by tensor."""
    shapes_of_pool = [[tuple(tensor.shape) for tensor in tensors_in(batch)] for batch in pool]
    for index, tensor in enumerate(tensors_in(whole)):
        shapes = sorted({of_batch[index] for of_batch in shapes_of_pool})
        if len(shapes) > 1 or shapes[0][:1] != (1,) or tensor.shape[:1] != (num_samples,):
            shown = " and ".join(map(str, [*shapes[:2], tuple(tensor.shape)]))
            raise UserError(
                f"{flag}: makes tensors of the shapes {shown} of one sample and of {num_samples}, which can't be "
                "joined along their first dimension: name a function in model.collate that joins batches of one sample"
            )


class BatchMaker:
    """Makes batches with the user's functions, and checks them. Raises UserError: a function can't be imported.

    Floating-point tensors get the cell's dtype, and with `channels_last` the channels innermost if there are 4 axes.
    """

    def __init__(self, cell: Cell, batch_size: int) -> None:
        model = cell.model
        self.batch_size, self.batch_args, self.channels_last = batch_size, model.batch_args, cell.options.channels_last
        self.dtype = STORED_DTYPES[cell.precision]
        self.num_samples, self.num_tokens = 0, 0  # in all batches that were made
        self.num_counted = 0  # samples in each batch, once the first one was made
        self.flag = f"model.batch={model.batch}"
        self.make = import_path("model.batch", model.batch or "")
        called = ", ".join(["batch_size", *(f"{name}={value}" for name, value in model.batch_args.items())])
        check_call(f"{self.flag}, called with ({called})", self.make, batch_size, **model.batch_args)
        self.count_samples = import_path("model.samples", model.samples) if model.samples else None
        self.count_tokens = import_path("model.tokens", model.tokens) if model.tokens else None

    def __call__(self) -> Any:
        """A further batch, in host memory, drawn from torch's generator. Raises UserError: it is no batch."""
        made = self.make(self.batch_size, **self.batch_args)
        if any(tensor.device.type != "cpu" for tensor in tensors_of(f"{self.flag}: should return", made)):
            raise UserError(f"{self.flag}: should return tensors on the CPU; accelbench moves them to the device")
        batch = mapped(made, self._cast)
        num_samples = self.count(batch)
        self.num_counted = self.num_counted or num_samples
        self.num_samples += num_samples
        if self.count_tokens is not None:
            self.num_tokens += counted("model.tokens", self.count_tokens, batch)
        return batch

    @property
    def tokens_per_sample(self) -> float | None:
        """Of all batches that were made; None if nothing counts tokens."""
        return None if self.count_tokens is None else self.num_tokens / self.num_samples

    def _cast(self, tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        cast = tensor.detach().to(self.dtype)
        is_image = self.channels_last and cast.layout == torch.strided and cast.dim() == 4
        return cast.contiguous(memory_format=torch.channels_last) if is_image else cast

    def count(self, batch: Any) -> int:
        """Samples in a batch, as the user's function counts them, or as many as were asked for."""
        if self.count_samples is not None:
            return counted("model.samples", self.count_samples, batch)
        first = next(tensors_in(batch))
        if not first.dim() or first.size(0) != self.batch_size:
            size = f"{first.size(0)} rows" if first.dim() else "no dimension"
            raise UserError(
                f"{self.flag}: was asked for {self.batch_size} samples, and its first tensor has {size}: name a "
                "function in model.samples that counts the samples of a batch"
            )
        return self.batch_size


def counted(flag: str, function: Callable[..., Any], batch: Any) -> int:
    """What a function of the user counts in a batch; a UserError if it is no whole number above 0."""
    answer = function(batch)
    num = answer.item() if isinstance(answer, Tensor) and answer.numel() == 1 else answer
    if not isinstance(num, int) or isinstance(num, bool) or not 0 < num <= MAX_COUNT:
        shown = beginning(one_line(repr(answer)), MAX_SHOWN)
        raise UserError(f"{flag}: should return a whole number above 0, not {shown}")
    return num


def count_note(model: ModelSpec, num: int, batch_size: int, num_rows: int) -> str | None:
    """What the user's function counts as samples, if it is not the batch size, or not the number of rows (0: none)."""
    if model.counted_by is None or (num == batch_size and num_rows in (0, num)):
        return None
    batch = f"a batch of {batch_size:,}" if num != batch_size else f"a batch whose first tensor has {num_rows:,} rows"
    samples = "1 sample" if num == 1 else f"{num:,} samples"
    return f"{samples} in {batch}{model.counted_by}"


class OwnTask:
    """A network on batches of any structure; see `module.ImageTask`.

    A tensor is the one argument of the network's `forward`, a tuple has its positional ones, a mapping its keywords:
    those that `forward` takes, or the model's `inputs`; the loss gets all. Each batch has `num_counted` samples.
    Raises UserError: the first batch has no such keys.
    """

    def __init__(
        self, network: nn.Module, first: Any, num_counted: int, loss: Loss | None = None, model: ModelSpec | None = None
    ) -> None:
        self.loss, self.num_counted = loss, num_counted
        self.flag = f"model.loss={model.loss}" if model else "loss"
        inputs = model.inputs if model else ()
        self._is_checked = False
        self.keys: Sequence[str] | None = None
        self.left_out: list[str] = []  # keys that go to the loss only
        if isinstance(first, Mapping):
            keys = list(first)
            self.keys = _taken(network, keys, inputs, f"model.batch={model.batch}" if model else "batch")
            self.left_out = [key for key in keys if key not in self.keys]
        elif inputs:
            raise UserError("model.inputs: the batch has no keys, leave it out")

    def infer(self, network: nn.Module, batch: Any) -> Any:
        if self.keys is not None:
            return network(**{key: batch[key] for key in self.keys})
        return network(*batch) if isinstance(batch, tuple | list) else network(batch)

    def train(self, network: nn.Module, batch: Any) -> tuple[Any, Tensor]:
        assert self.loss is not None, "training has a loss"
        output = self.infer(network, batch)
        loss = self.loss(output, batch)
        if not self._is_checked:
            if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
                raise UserError(f"{self.flag}: should return a scalar tensor that depends on trainable parameters")
            self._is_checked = True
        return output, loss

    def num_samples(self, batch: Any) -> int:
        return self.num_counted


def _taken(network: nn.Module, keys: Sequence[str], inputs: Sequence[str], flag: str) -> Sequence[str]:
    """The keys of a batch that the network gets: `inputs`, or those that its `forward` takes."""
    named, takes_any = _arguments(network)
    taken = inputs or [key for key in keys if takes_any or key in named]
    if not taken or set(taken) - set(keys):
        has = ", ".join(map(str, keys))
        takes = ", ".join(inputs or named) or "nothing"
        raise UserError(f"{flag}: has {has}, and the network gets {takes}: name the entries as forward's arguments")
    return taken


def _arguments(network: nn.Module) -> tuple[list[str], bool]:
    """The names of `forward`'s arguments, and whether it takes others."""
    if isinstance(network, AsItIs):
        network = network.network
    if isinstance(network, torch.jit.ScriptModule):
        schema: Any = network.forward.schema  # type: ignore[attr-defined]
        return [argument.name for argument in schema.arguments[1:]], False
    parameters = inspect.signature(network.forward).parameters.values()
    named = [item.name for item in parameters if item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)]
    return named, any(item.kind == item.VAR_KEYWORD for item in parameters)


class OwnWorkload:
    """A network on batches of the user's. See `network_and_data.Images`, which describes the methods."""

    task: OwnTask  # known once the network is built
    joined: Callable[[Sequence[Any]], Any] = staticmethod(structure.joined)

    def __init__(self, cell: Cell, backend: Backend, ranks: Ranks) -> None:
        self.cell = cell
        self.num_samples = num = cell.batch_size // ranks.num
        self.maker = self._maker(num)
        seed_generators(cell.seed + RANK_SEEDS * ranks.part[0])
        pipeline = cell.data.pipeline
        self.feed = DrawnFeed(
            self.maker,
            num,
            fresh=pipeline == Pipeline.fresh,
            put=backend.put if pipeline == Pipeline.device else None,
            pinned=pins(cell, backend),
            count=self.maker.count if isinstance(self.maker, BatchMaker) and cell.model.samples else None,
        )
        self.first = self.feed.batches[0]
        self.num_counted = self.maker.num_counted

    def _maker(self, num: int) -> BatchMaker | TokenMaker:
        return BatchMaker(self.cell, num)

    def _task(self, network: nn.Module) -> OwnTask:
        model, loss = self.cell.model, None
        if model.loss:
            loss = import_path("model.loss", model.loss)
            check_call(f"model.loss={model.loss}, called with (output, batch)", loss, None, None)
        return OwnTask(network, self.first, self.num_counted, loss, model)

    def build(self) -> nn.Module:
        seed_generators(self.cell.seed)
        network = zoo.build(self.cell.model, (), 0)
        self.task = self._task(network)

        def run(lazy: nn.Module) -> None:
            self.task.infer(lazy, mapped(self.example(), lambda tensor: cast_tensor(tensor, torch.float32)))

        return zoo.materialised(network, run)

    def check_first(self, output: object) -> None:
        """Any output will do."""

    def feed_of(self, split: str) -> DrawnFeed:
        return self.feed  # batches that are drawn have no splits

    def requests(self, num: int) -> list[Any]:
        """At most so many batches of one sample. Raises UserError: they can't be joined."""
        make = self._maker(1)
        model = self.cell.model
        pool = [make() for _ in range(min(num, NUM_DRAWN))]
        if model.collate:
            self.joined = import_path("model.collate", model.collate)
            tensors_of(f"model.collate={model.collate}: should return", self.joined(pool))
        elif self.num_samples > 1:
            check_joined(f"model.batch={model.batch}", pool, self.first, self.num_counted)
        return pool

    def example(self) -> Any:
        return mapped(self.first, Tensor.cpu)

    def unseen(self) -> tuple[Any, bool]:
        """A batch that is drawn from a random seed, or, if its function gives the same again, a varied one."""
        seed_generators(SystemRandom().randrange(2**31, 2**32))
        unseen = self._maker(self.num_samples)()  # of another maker, whose tokens do not count
        if not any(is_same(mapped(batch, Tensor.cpu), unseen) for batch in self.feed.batches):
            return unseen, True
        other = varied(unseen)
        return (unseen, False) if other is None else (other, True)

    def task_in(self, dtype: torch.dtype) -> Any:
        return self.task

    def tokens_per_sample(self) -> float | None:
        return self.maker.tokens_per_sample

    def notes(self) -> Iterator[str]:
        if self.task.left_out:
            taken = ", ".join(self.task.keys or ())
            left_out = ", ".join(map(str, self.task.left_out))
            yield f"of a batch, the network gets {taken}, and the loss alone gets {left_out}"
        if note := count_note(self.cell.model, self.num_counted, self.num_samples, num_rows(self.first)):
            yield note


class TransformersWorkload(OwnWorkload):
    """A network of transformers, which computes its loss itself, since it gets labels in training."""

    def _maker(self, num: int) -> TokenMaker:
        return TokenMaker(self.cell, num)

    def _task(self, network: nn.Module) -> OwnTask:
        self.config: Any = network.config
        return OwnTask(network, self.first, self.num_counted, lambda output, _: output.loss)

    def notes(self) -> Iterator[str]:
        yield f"transformers' attention: {getattr(self.config, '_attn_implementation', None)}"
