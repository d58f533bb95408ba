"""Lightning's own loop as steps of the clock: one batch, with everything that the loop does for it.

The loop runs in a coroutine, whose loader returns to the clock before each batch. A greenlet runs in the thread of the
clock: what torch keeps for each thread holds in both. Hooks into what the loop calls time, count or look; timed steps
have none.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

from greenlet import getcurrent, greenlet
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from accelbench.engines.pytorch.own.workload import counted
from accelbench.engines.pytorch.structure import copied, num_rows, tensors_in
from accelbench.errors import UserError
from accelbench.schema.vocab import Phase

ENDLESS = 2**62  # batches: Lightning predicts once over a loader
COPIES = "batch_to_device"
# What Lightning's loop calls of its strategy, and of the module in automatic optimisation -> the phase of its time.
OF_STRATEGY = {
    COPIES: Phase.copy_in,
    "training_step": Phase.forward,
    "predict_step": Phase.forward,
    "backward": Phase.backward,
    "optimizer_step": Phase.optimizer,
}
PHASES = {**OF_STRATEGY, "optimizer_zero_grad": Phase.optimizer}
LOADED = "convert_input"  # of the precision plugin: gets each batch as the loader gave it

Section = Callable[..., Any]
# Is called instead of a section, with its name, the section itself, and what it would be called with.
Around = Callable[..., Any]


class Stopped(BaseException):
    """Ends Lightning's loop when everything was measured. It runs its teardown, and no hook of an epoch's end."""


class LoopStep:
    """One batch of Lightning's loop, as the clock sees it: everything happens inside `compute`.

    `run` runs the whole loop, over a `SteppedLoader`. If `endless`, that begins again when it ends; else Lightning does
    that, as a new epoch. The samples of each batch are checked and kept: the batch size, but for the last one of an
    epoch, as the user's function `count` or the first tensor tells. The setting `flag` names what makes the batches.
    """

    def __init__(
        self, run: Callable[[], None], flag: str, batch_size: int, count: Callable[..., Any] | None, *, endless: bool
    ) -> None:
        self.flag, self.batch_size, self.count, self.endless = flag, batch_size, count, endless
        self._loop, clock = greenlet(run), getcurrent()
        self._continue = self._loop.switch
        self.pause = partial(clock.switch, True)  # called by the loop; returns when the clock wants the next batch
        self.sizes: list[int] = []  # of all batches, in their order
        self.num_steps = 0
        self.num_early_ends = 0  # of the loader, before the batches that it said it has
        self.given: list[Any] = []  # batches that come before those of the loader
        self.mark: Callable[[Phase], None] = lambda phase: None
        self.begin_epoch()

    def begin_epoch(self) -> None:
        """The next batch is the first one of an epoch."""
        self.is_first = True
        self.last = 0  # the size of its last batch, if that was smaller

    def add(self, batch: Any) -> None:
        """Notes a batch. Raises UserError: it has another size than it should have, or that can't be counted."""
        num = num_rows(batch) if self.count is None else counted("model.samples", self.count, batch)
        if num != self.batch_size or self.last:
            if not 0 < num < self.batch_size or self.is_first or self.last:
                found = f"a batch has {self.last or num} samples, not batch_size={self.batch_size}"
                hint = "an argument or an attribute of this name; model.samples=pkg.count may count others"
                raise UserError(f"{self.flag}: {found}, which is given as {hint}")
            self.last = num
        self.is_first = False
        self.sizes.append(num)

    def advance(self) -> None:
        """To be called by the clock: returns when the loop has run one batch, or before the first one."""
        if self._continue() is not True:
            raise UserError("Lightning's loop ended by itself: it had no batch, or the module set trainer.should_stop")

    def stop(self) -> None:
        """Ends the loop. What fails then, such as a hook of the user's for exceptions, fails after the measurement."""
        if not self._loop.dead:
            with suppress(Stopped, Exception):
                self._loop.throw(Stopped)

    # The loop fetches and copies its batch, and leaves its results on the device.
    def fetch(self) -> None: ...
    def copy_in(self, batch: None) -> None: ...
    def copy_out(self, result: None) -> None: ...

    def compute(self, batch: None) -> None:
        """Runs the next batch. A step of the loop that finds the loader's end instead belongs to the one after it."""
        num_ends = self.num_early_ends
        self.advance()
        if self.num_early_ends > num_ends:
            self.advance()
            if self.num_early_ends > num_ends + 1:
                raise UserError(f"{self.flag}: its loader gave no batch in a whole epoch")
        self.num_steps += 1

    def num_samples(self, batch: None) -> int:
        """Samples in the batch that runs next."""
        return self.sizes[min(self.num_steps, len(self.sizes) - 1)]

    def samples_of_last(self, num_steps: int) -> int:
        """Samples in the batches of the last steps together."""
        return sum(self.sizes[self.num_steps - num_steps : self.num_steps])


class SteppedLoader:
    """The user's loader; it pauses the loop before each batch that leads to a step.

    Lightning asks a loader without a length for one batch in advance, at the begin of each epoch: that one leads to no
    step, but the call that finds no further batch does. Nor does one of a loader that has fewer batches than it says.
    """

    def __init__(self, loader: Any, step: LoopStep) -> None:
        self.loader, self.step = loader, step
        self._batches: Iterator[Any] | None = None
        self._has_length = True
        self._is_ahead = False  # whether the next batch is asked for in advance

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not yet set
            raise AttributeError(name)
        return getattr(self.loader, name)  # such as its sampler, which Lightning tells the epoch

    def __len__(self) -> int:
        return ENDLESS if self.step.endless else len(self.loader)

    def __iter__(self) -> "SteppedLoader":
        # The loader begins with the first batch: Lightning also begins an iteration only to see that it can, and a
        # DataLoader would draw a random number for that.
        self._batches = None
        try:
            len(self)
        except (TypeError, NotImplementedError):
            self._has_length = False
        self._is_ahead = not self._has_length
        return self

    def __next__(self) -> Any:
        if self._is_ahead:
            self._is_ahead = False
        else:
            self.step.pause()
        if self.step.given:
            return self.step.given.pop()
        try:
            batch = self._following()
        except StopIteration:
            self.step.num_early_ends += self._has_length  # without a length, this call leads to the last batch's step
            raise
        self.step.add(batch)
        self.step.mark(Phase.data_wait)
        return batch

    def _following(self) -> Any:
        if self._batches is not None:
            try:
                return next(self._batches)
            except StopIteration:
                if not self.step.endless:
                    raise
        self.step.begin_epoch()
        self._batches = iter(self.loader)
        return next(self._batches)


@contextmanager
def wrapped(trainer: Any, around: Around, names: Iterable[str] = PHASES) -> Iterator[None]:
    """While it is entered, `around` is called instead of the sections of these names."""
    owners = {**dict.fromkeys(OF_STRATEGY, trainer.strategy), LOADED: trainer.precision_plugin}
    with ExitStack() as stack:
        for name in names:
            owner = owners.get(name, trainer.lightning_module)
            own = vars(owner)
            if name in own:  # such as a method that the user put into the object itself
                stack.callback(own.__setitem__, name, own[name])
            else:
                stack.callback(own.pop, name)
            own[name] = partial(around, name, getattr(owner, name))
        yield


def marking(step: Any) -> Around:
    """Has `step.mark` called at the end of each section, and of what its caller did before it."""
    # Sections call each other, in automatic and in manual optimisation differently: what a section does beside those
    # that it calls counts as its own phase. What is in no section is `framework`.
    running = [Phase.framework]

    def marked(name: str, section: Section, /, *args: Any, **kwargs: Any) -> Any:
        step.mark(running[-1])
        running.append(PHASES[name])
        try:
            return section(*args, **kwargs)
        finally:
            step.mark(running.pop())

    return marked


def counting(counter: TorchDispatchMode) -> Around:
    """Has `counter` entered during the sections that compute: neither in the loader nor in copies to the device."""

    def counted(name: str, section: Section, /, *args: Any, **kwargs: Any) -> Any:
        # A section may be called by another one.
        left_out = name == COPIES or counter in _get_current_dispatch_mode_stack()
        with nullcontext() if left_out else counter:
            return section(*args, **kwargs)

    return counted


class StepProbe:
    """What one step showed."""

    loaded: Any  # its batch, as the loader gave it
    batch: Any  # before it was copied to the device
    given: Any  # as training_step or predict_step got it
    result: Any

    def around(self, name: str, section: Section, /, *args: Any, **kwargs: Any) -> Any:
        """Keeps what passes through a section."""
        if name == LOADED:
            self.loaded = args[0]
        elif name == COPIES:
            self.batch = copied(args[0])  # the user's code may change its batch
        elif PHASES[name] == Phase.forward:
            self.given = copied(args[0])
            self.result = section(*args, **kwargs)
            return self.result
        return section(*args, **kwargs)

    @property
    def rows_left(self) -> tuple[int, int] | None:
        """How many rows of how many training_step or predict_step got, if hooks took some away.

        None if they did not, or if it can't be told: a tensor whose other dimensions are others too, such as one that
        has the time first, or pairs of samples, may hold all of them.
        """

        def shape(tensor: Tensor) -> tuple[int, ...]:
            """Its first dimension, and those of the others that are longer than 1."""
            return (*tensor.shape[:1], *(length for length in tensor.shape[1:] if length > 1))

        shapes = zip(map(shape, tensors_in(self.loaded)), map(shape, tensors_in(self.given)), strict=False)
        pairs = [(before, after) for before, after in shapes if before and after]
        cropped = [(after[0], before[0]) for before, after in pairs if after[1:] == before[1:] and after[0] < before[0]]
        return cropped[0] if cropped and len(cropped) == len(pairs) else None

    @property
    def loss(self) -> float | None:
        """What training_step returned: a tensor, or the entry `loss` of a mapping; None if it returned none."""
        loss = self.result.get("loss") if isinstance(self.result, Mapping) else self.result
        return loss.item() if isinstance(loss, Tensor) and loss.numel() == 1 else None


@contextmanager
def noting_skipped(package: str, num_steps: Callable[[], int]) -> Iterator[set[int]]:
    """While it is entered, notes the steps in which training_step returned None, in automatic optimisation."""
    # This stands in for what Lightning, of this package, warns of each such batch with: other steps take no longer.
    closure = importlib.import_module(f"{package}.loops.optimization.automatic").Closure
    steps: set[int] = set()
    before, closure.warning_cache = closure.warning_cache, SimpleNamespace(warn=lambda *_, **__: steps.add(num_steps()))
    try:
        yield steps
    finally:
        closure.warning_cache = before
