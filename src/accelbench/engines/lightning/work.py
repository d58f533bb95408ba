"""Counts what one step has to do: floating-point operations, bytes and operators.

The step runs once on a copy of the network whose tensors have shapes but no contents (PyTorch's fake tensors), which
costs neither the computation nor the memory. The tensors pretend to be on the CPU, whatever the cell's device, so that
autocast, attention and recurrent layers use the operators of the CPU.
"""

import collections
import copy
import functools
from collections import Counter as Counts
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from accelbench.engines.lightning import operators
from accelbench.engines.lightning.module import OPTIMIZERS, BenchModule, new_optimizer
from accelbench.engines.lightning.precision import DTYPES, MIXED, STORED_DTYPES
from accelbench.engines.lightning.structure import mapped, tensors_in
from accelbench.measuring.promises import Products
from accelbench.schema.measurement import Work
from accelbench.schema.text import beginning, message_of, one_line
from accelbench.schema.vocab import Precision

MAX_REASON = 300  # characters


def count(module: BenchModule, batch: Any, precision: Precision, *, train: bool) -> Work:
    """The work of one step on `batch`.

    To be called after the engine's hooks were removed from the module: the copy would have them too.

    In training: the forward pass, the loss, the backward pass and a later step of the optimiser, as a loop over the
    parameters. On a GPU the optimiser handles many parameters per operator, and a recurrent layer of cuDNN is one
    operator: `num_operators` and `bytes` are too high there. The gradient scaler is left out.

    Args:
        module: the network with its task and optimiser; any device and dtype; not changed.
        batch: as the task takes it; only the shapes and dtypes of its tensors matter.
        precision: what the cell computes in.
        train: whether it trains or infers.

    Returns:
        The counts; all None, with the reason, if the network fails or needs the contents of its tensors.
    """
    counter, fakes = Counter(), _FakeTensors(allow_non_fake_inputs=True)
    try:
        with fakes:
            network = _hollow(module.network, STORED_DTYPES[precision]).train(train)
            batch = mapped(batch, lambda tensor: _empty(tensor, tensor.dtype))
            context = torch.autocast("cpu", dtype=DTYPES[precision]) if precision in MIXED else nullcontext()
            if train:
                hollow = BenchModule(network, module.model, module.task, module.backend)
                _train(hollow, batch, context, counter)
            else:
                with counter, torch.inference_mode(), context:  # as it is timed
                    module.task.infer(network, batch)
        if train:
            _optimise(hollow, counter, fakes)
    except Exception as error:  # a user's network may raise anything
        return not_counted(error)
    return counter.work()


def not_counted(error: Exception) -> Work:
    """No counts, with the reason."""
    why = beginning(one_line(message_of(error)), MAX_REASON)
    return Work(uncounted=[f"{type(error).__name__}: {why}" if why else type(error).__name__])


class _FakeTensors(FakeTensorMode):
    """Asks once whether there is a GPU. torch asks at each operator, which takes 1.5 ms if there is no driver."""

    @functools.cached_property
    def avoid_device_init(self) -> bool:
        return super().avoid_device_init


def _train(module: BenchModule, batch: Any, context: AbstractContextManager[Any], counter: "Counter") -> None:
    """One training step, as `module.TrainStep` does it."""
    with counter:
        with context:
            _, loss = module.task.train(module.network, batch)
        loss.backward()


def _optimise(module: BenchModule, counter: "Counter", fakes: FakeTensorMode) -> None:
    """A later step of the optimiser, after the backward pass; the first step creates the optimiser's state.

    `OPTIMIZERS` update each parameter alone, by operators that are the same on every device: of the parameters that are
    alike, one on the device `meta` is updated, which takes a tenth of the time that fake tensors take.
    """
    if module.model.optimizer not in OPTIMIZERS:  # of the user's own nothing is known
        with fakes:
            optimizer = module.configure_optimizers()
            optimizer.step()
            with counter:
                optimizer.step()
        return
    pairs = [(each, each.grad) for each in module.parameters() if each.requires_grad and each.grad is not None]
    layouts = (tuple((tensor.shape, tensor.stride(), tensor.dtype) for tensor in pair) for pair in pairs)
    for of_parameter, of_gradient in (alike := collections.Counter(layouts)):
        parameter = nn.Parameter(_on_meta(*of_parameter))
        parameter.grad = _on_meta(*of_gradient)
        optimizer = new_optimizer(module.model, [parameter])
        optimizer.step()
        with counter.times(alike[of_parameter, of_gradient]):
            optimizer.step()


def _on_meta(shape: torch.Size, stride: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(shape, stride, dtype=dtype, device="meta")


def _format(args: Any) -> str:
    """The format of an operator's first tensor, by NumPy's name."""
    return str(next(tensors_in(args)).dtype).removeprefix("torch.")


def _hollow(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy of `network` in `dtype` without contents; to be called in a FakeTensorMode."""
    memo: dict[int, Any] = {}
    for parameter in network.parameters():
        fake = _empty(parameter, dtype if parameter.is_floating_point() else parameter.dtype)
        memo[id(parameter)] = nn.Parameter(fake, parameter.requires_grad)
    for buffer in network.buffers():
        memo[id(buffer)] = _empty(buffer, dtype if buffer.is_floating_point() else buffer.dtype)
    return copy.deepcopy(network, memo)


def _empty(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype, device="cpu")


class Counter(TorchDispatchMode):
    """Adds up the work of all operators that run while it is entered."""

    def __init__(self) -> None:
        super().__init__()
        self.flops_in: collections.Counter[str] = collections.Counter()  # format -> operations of its products
        self.bytes = 0
        self.num_operators = 0
        self.uncounted: set[str] = set()
        self._weight = 1

    def work(self, num_steps: int = 1) -> Work:
        """What was counted in `num_steps` steps, per step."""
        uncounted = sorted(self.uncounted)
        return Work(
            flops=None if uncounted else self.flops_in.total() // num_steps,
            bytes=self.bytes // num_steps,
            num_operators=self.num_operators // num_steps,
            uncounted=uncounted,
        )

    @contextmanager
    def times(self, num: int) -> Iterator[None]:
        """Enters the counter for work that is done `num` times."""
        self._weight = num
        with self:
            yield
        self._weight = 1

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        formula = operators.formula(func)
        if formula is None and func.namespace != "prim":
            with self:  # a composite operator: count its parts
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if operators.does_nothing(func):
            return result
        self.num_operators += self._weight
        self.bytes += self._weight * operators.num_bytes(func, args, kwargs, result)
        if formula is not None:
            self.flops_in[_format(args)] += self._weight * formula(*args, **kwargs, out_val=result)
        elif not operators.has_no_flops(func):
            self.uncounted.add(str(func.overloadpacket))
        return result


@contextmanager
def watched(into: Products) -> Iterator[None]:
    """Watches the operators of one or several steps on the CPU or a GPU, backward passes included."""
    counter = Counter()
    with counter:
        yield
    into.flops = dict(Counts(into.flops) + counter.flops_in)
    into.uncounted |= counter.uncounted
