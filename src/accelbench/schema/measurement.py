"""What an engine measured of one cell, raw."""

from dataclasses import dataclass, field

from accelbench.schema.vocab import Stop
from accelbench.schema.work import Work


@dataclass(frozen=True, kw_only=True)
class Block:
    """Steps that ran freely and were waited for once, at their end."""

    num_steps: int
    num_samples: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The trained model on the whole test set.

    Attributes:
        accuracy: share of right answers, 0 to 1; None for a model that classifies nothing.
        loss: mean over the test set; None where it is not finite.
    """

    num_samples: int
    seconds: float
    loss: float | None
    accuracy: float | None = None


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One whole pass over the data, waited for at its end.

    Attributes:
        seconds: wall time, data included, compilation included.
        num_samples: samples that were really computed.
        began_boot_s: when it began, in seconds since the machine started; None in records of before this was kept.
        loss: mean over the epoch's steps; None where none is computed (inference).
        accuracy: share of right answers in training, as the weights were at each step; None where none are given.
        evaluation: on the test set, after the epoch and outside of its seconds; None in inference.
    """

    seconds: float
    num_samples: int
    began_boot_s: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    evaluation: Evaluation | None = None


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Where the wall time of steps went.

    Attributes:
        phases_s: phase (`vocab.Phase`) -> its seconds in each step; the phases of a step add up to it.
        undisturbed_s: steps in turn with those, timed as a whole: what taking the time in between costs.
    """

    phases_s: dict[str, list[float]]
    undisturbed_s: list[float]


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator of the framework in one step: how often it was called, and its share of all operators' time."""

    name: str
    num_calls: int
    share: float


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What the engine measured, raw. Seconds are wall time; lists hold a value per step, in order.

    Attributes:
        device, device_name, precision: what really ran, as observed, not as asked.
        num_devices: how many devices computed, each its share of every batch.
        threads: how many CPU threads, in each process; None where the engine can't tell.
        num_params: trainable parameters.
        num_train_samples, num_test_samples: samples in each split; None for random images.
        build_s: from nothing to a model on its device.
        compile_s, num_compiles: compilation (XLA's, torch.compile's), where the engine can tell; else None.
        fallbacks: operators that ran on the CPU instead of the device; None where the engine can't tell.
        first_step_s: the first step, waited for.
        warmup_s: steps before the steady state, each waited for; of many, the first.
        warmup_total_s, num_warmup_steps: seconds of all of them, and how many they were.
        settled: whether their times had stopped to change; None where that was not looked at.
        stop: why no more blocks were measured (`vocab.Stop`); None for whole epochs.
        blocks: free-running blocks of the steady state: the throughput's samples.
        latency_s: steps of the steady state, each waited for. Keras' steps are executions, of as many batches as
            `engine.steps_per_execution` says.
        launch_s: of the same steps, until the call returned, before waiting.
        data_s: of the same steps: getting the batch; empty where the step itself fetches it.
        copy_in_s, copy_out_s: of the same steps: moving the batch to the device and the result back; empty
            where nothing is moved.
        num_steady_samples: samples computed in the steady state, those of blocks that were started again included;
            None for whole epochs.
        steady_boot_s: when the steady state, or the first and last epoch, began and ended, in seconds since
            the machine started.
        clock_drift: how much faster the clock ran in the steady state than one that nothing sets, as a share; None
            for whole epochs.
        breakdown: where the time of further steps went; None where it was not looked at.
        operators: those that a step spends most time in, the busiest first; empty where that was not looked at.
        work: what one step has to do; None where it was not counted.
        epochs: whole epochs (`fit`).
        loss: the last training step's, of one batch; None in inference.
        evaluation: on the test set, after the last epoch of training; else None.
        output_error: how far the output for two samples is from that of the same weights in fp32 on the CPU: the norm
            of the difference over the norm; None in training, and for plain fp32 on the CPU itself.
        peak_device_bytes: the allocator's peak on the accelerator, of several the largest; None where there is none to
            ask.
        peak_host_bytes: the kernel's high-water mark of the process's memory when measuring ended, of several
            processes the sum; None where it does not tell.
        cudnn_benchmark: whether cuDNN tried its algorithms to choose the fastest; None where there is no cuDNN.
        warnings: what a reader of the numbers should know.
        defects: what makes the numbers false, such as a loss that is not finite: the cell is invalid.
    """

    device: str
    device_name: str
    precision: str
    num_devices: int
    threads: int | None
    num_params: int
    num_train_samples: int | None
    num_test_samples: int | None
    build_s: float
    compile_s: float | None = None
    num_compiles: int | None = None
    fallbacks: list[str] | None = None
    first_step_s: float | None = None
    warmup_s: list[float] = field(default_factory=list)
    warmup_total_s: float = 0.0
    num_warmup_steps: int = 0
    settled: bool | None = None
    stop: Stop | None = None
    blocks: list[Block] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    launch_s: list[float] = field(default_factory=list)
    data_s: list[float] = field(default_factory=list)
    copy_in_s: list[float] = field(default_factory=list)
    copy_out_s: list[float] = field(default_factory=list)
    num_steady_samples: int | None = None
    steady_boot_s: tuple[float, float] | None = None
    clock_drift: float | None = None
    breakdown: Breakdown | None = None
    operators: list[Operator] = field(default_factory=list)
    work: Work | None = None
    epochs: list[Epoch] = field(default_factory=list)
    loss: float | None = None
    evaluation: Evaluation | None = None
    output_error: float | None = None
    peak_device_bytes: int | None = None
    peak_host_bytes: int | None = None
    cudnn_benchmark: bool | None = None
    warnings: list[str] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)

    @property
    def steady_epochs(self) -> list[Epoch]:
        """All but the first epoch, which holds warm-up and compilation; that one where there is no other."""
        return self.epochs[1:] or self.epochs
