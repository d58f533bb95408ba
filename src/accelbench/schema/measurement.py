"""What an engine measured of one cell: raw times and counts, from which all statistics are derived later."""

from dataclasses import dataclass, field, replace

from accelbench.schema.ranges import AtLeastOne, Count, Devices, Difference, Duration, Number, Rate, Seconds, Share
from accelbench.schema.vocab import Phase, Promise, Stop


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of one step, over all devices that share its batch, counted from its operators, not measured."""

    # floating-point operations of matrix products, convolutions, attention and recurrent layers; a multiply-add counts
    # as two. Elementwise work, reductions, normalisation and pooling are not counted.
    flops: Count | None = None
    # estimated memory traffic: each operator reads its inputs and writes its outputs once, without caches
    bytes: Count | None = None
    num_operators: Count | None = None  # operators launched on each device, without views and bare allocations
    # why a count is None: names of operators without a known count, or the error
    uncounted: list[str] = field(default_factory=list)

    def of_devices(self, num: int) -> "Work":
        """The work of `num` devices, if this is the work of one of them."""
        flops = None if self.flops is None else num * self.flops
        return replace(self, flops=flops, bytes=None if self.bytes is None else num * self.bytes)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive steps that ran freely; the clock waited for the device only after the last one."""

    num_steps: AtLeastOne
    num_samples: AtLeastOne
    seconds: Duration


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The trained model, evaluated on the whole test set."""

    num_samples: AtLeastOne
    seconds: Seconds
    loss: Number | None  # mean over the test set; None if it diverged, which makes the cell invalid
    accuracy: Share | None = None  # share of right answers, 0 to 1; None for a model that does not classify


@dataclass(frozen=True, kw_only=True)
class Answers:
    """A trained classifier's answers on the test set, beside those of the same weights in fp32 in PyTorch."""

    num_samples: AtLeastOne  # that both were asked, from the first one of the test set
    num_right: Count  # right answers of what was measured
    num_fp32_right: Count  # right answers in fp32
    num_won: Count  # samples that only what was measured answered rightly

    @property
    def num_lost(self) -> int:
        """Samples that only fp32 answered rightly."""
        return self.num_fp32_right - (self.num_right - self.num_won)


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One whole pass over the data; the clock waited for the device at its end."""

    seconds: Duration  # wall time, loading of data and compilation included
    num_samples: AtLeastOne  # samples that were computed
    began_boot_s: Seconds | None = None  # when it began, in seconds since the machine started; None in older records
    # of `seconds`, the time to get the batches, while an accelerator may still compute the batches before; None if the
    # steps fetch them themselves, and in older records
    data_s: Seconds | None = None
    loss: Number | None = None  # mean over the epoch's steps; None in inference
    accuracy: Share | None = None  # share of right answers during training; None for a model that does not classify
    evaluation: Evaluation | None = None  # on the test set after the epoch, not part of `seconds`; None in inference


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """How the wall time of steps divides into phases."""

    # phase (`vocab.Phase`) -> seconds, one value per step; the phases of a step add up to the step
    phases_s: dict[Phase, list[Difference]]
    # seconds of alternate steps that were timed only as a whole; the difference is what timing the phases costs
    undisturbed_s: list[Duration]

    def __post_init__(self) -> None:
        nums = {len(seconds) for seconds in self.phases_s.values()}
        if len(nums) != 1 or 0 in nums or not self.undisturbed_s:
            raise ValueError("each phase should have as many values, and undisturbed_s at least one")


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator of the framework in one step: the number of its calls, and its share of all operators' time."""

    name: str
    num_calls: Count
    share: Share


@dataclass(frozen=True, kw_only=True)
class Check:
    """What was observed of a promise; docs/measuring.md has the table of all of them."""

    promise: Promise
    observed: str = "not observed"  # in words; empty in older records
    # of the work that was looked at, 0 to 1; None if it is unknown or nothing was observed: no sign that all is well
    share: Share | None = None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One cell's measurement. Seconds are wall time; a list has one value per step, in order."""

    # device, device_name, precision: what really computed, as observed, which may differ from the cell's settings
    device: str
    device_name: str
    precision: str
    num_devices: Devices  # how many devices computed, each an equal part of every batch
    threads: AtLeastOne | None  # CPU threads in each process; None if the engine can't tell
    num_params: Count  # trainable parameters
    # num_train_samples, num_test_samples: samples in each split; None for random images
    num_train_samples: AtLeastOne | None
    num_test_samples: AtLeastOne | None
    build_s: Seconds  # time to build the model and put it onto its device
    # time to export the network from PyTorch, once for all cells that load the file; None if it was not exported
    export_s: Seconds | None = None
    # time to quantise the exported network, calibration included, once like the export; None if it was not quantised
    quantize_s: Seconds | None = None
    # compile_s, num_compiles: compilations by XLA, by torch.compile or of an exported network; None if the engine can't
    # tell
    compile_s: Seconds | None = None
    num_compiles: Count | None = None
    # size of the files that an exported network was compiled from or to; None without
    artifact_bytes: Count | None = None
    # how many operators that multiply matrices compute in which format, by NumPy's names, in the network that an engine
    # compiled; empty if it does not say
    formats: dict[str, Count] = field(default_factory=dict)
    # operators that ran on the CPU instead of the device; None if the engine can't tell
    fallbacks: list[str] | None = None
    first_step_s: Duration | None = None  # the first step, waited for; None in older records of whole epochs
    warmup_s: list[Seconds] = field(default_factory=list)  # the first warm-up steps, each waited for
    # warmup_total_s, num_warmup_steps: total time and number of all warm-up steps; the number is 0 if unknown
    warmup_total_s: Seconds = 0.0
    num_warmup_steps: Count = 0
    # whether step times had stopped changing when warm-up ended; None if that was not checked
    settled: bool | None = None
    stop: Stop | None = None  # why no more blocks were measured; None for whole epochs
    blocks: list[Block] = field(default_factory=list)  # the steady state, from which the throughput is computed
    # seconds of the steady state that belong to no block and no step; None in older records
    dropped_s: Seconds | None = None
    # further steps of the steady state, each waited for. In Keras a step is one execution, of `steps_per_execution`
    # batches.
    latency_s: list[Duration] = field(default_factory=list)
    # of each step in `latency_s`, the time until the call returned, before waiting for the device
    launch_s: list[Seconds] = field(default_factory=list)
    # of each step in `latency_s`, the time to get the batch; empty if the step itself fetches it
    data_s: list[Seconds] = field(default_factory=list)
    # copy_in_s, copy_out_s: of each step in `latency_s`, the time to copy the batch to the device and the result back;
    # empty if nothing is copied
    copy_in_s: list[Seconds] = field(default_factory=list)
    copy_out_s: list[Seconds] = field(default_factory=list)
    # samples computed in the steady state, discarded blocks included; None for whole epochs
    num_steady_samples: AtLeastOne | None = None
    # begin and end of the steady state, or of the epochs, in seconds since the machine started
    steady_boot_s: tuple[Seconds, Seconds] | None = None
    # how much faster the clock ran in the steady state than one that is never adjusted, as a share; None for whole
    # epochs
    clock_drift: Number | None = None
    breakdown: Breakdown | None = None  # phases of additional steps; None if they were not timed
    # the operators that take most of a step's time, longest first; empty if they were not profiled
    operators: list[Operator] = field(default_factory=list)
    work: Work | None = None  # the work of one step; None if it was not counted
    epochs: list[Epoch] = field(default_factory=list)  # whole epochs (protocol `fit`)
    loss: Number | None = None  # of the last training step's batch; None in inference
    evaluation: Evaluation | None = None  # on the test set after the last epoch of training; None otherwise
    answers: Answers | None = None  # of a trained classifier in inference, by an engine that exports it; None otherwise
    # norm of the difference between the output for two samples and that of the same weights in fp32 on the CPU, over
    # the norm of the latter; None in training, and for plain fp32 on the CPU
    output_error: Number | None = None
    # peak of the accelerator's allocator, of several devices the largest; None if it has none
    peak_device_bytes: Count | None = None
    # the kernel's high-water mark of memory when measuring ended, summed over the processes; None if it can't be read
    peak_host_bytes: Count | None = None
    # what gave this process its memory, as observed: a word of `vocab.Allocator`, `glibc`, or the name of another
    # library; None if that can't be told
    allocator: str | None = None
    # the file's name and version, such as `libtcmalloc_minimal.so.4.5.10 gperftools 2.10`
    allocator_library: str | None = None
    cudnn_benchmark: bool | None = None  # whether cuDNN tried its algorithms to choose the fastest; None without cuDNN
    tokens_per_sample: Rate | None = None  # of the batches that were measured; None if nothing counts tokens
    checks: list[Check] = field(default_factory=list)  # what was observed of each promise; empty in older records
    checks_s: Seconds | None = None  # how long observing took; none of it is in what is timed. None in older records.
    # what a reader should know of what was measured, without a doubt about the numbers
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # what a reader of the numbers should know
    # what makes the numbers wrong, such as a loss that is not finite; with any, the cell is `invalid`
    defects: list[str] = field(default_factory=list)

    @property
    def samples_per_step(self) -> float | None:
        """The mean of all steps of the blocks; None without blocks."""
        num_steps = sum(block.num_steps for block in self.blocks)
        return sum(block.num_samples for block in self.blocks) / num_steps if num_steps else None

    @property
    def steady_epochs(self) -> list[Epoch]:
        """All epochs but the first, which includes warm-up and compilation; the first if there is no other."""
        return self.epochs[1:] or self.epochs
