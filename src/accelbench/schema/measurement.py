"""The measurement of one cell, and the conditions under which it was made.

A measurement has raw times and counts. All statistics are computed from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from accelbench.schema.cell import Phase, Span, Status, Stop, Verdict
from accelbench.schema.serialize import (
    AtLeastOne,
    Count,
    Devices,
    Difference,
    Duration,
    NotNegative,
    Number,
    Rate,
    Reading,
    Seconds,
    Share,
)

SeriesName = Annotated[str, Meta(pattern="^[A-Za-z0-9_]+$")]
Interval = tuple[float, float]  # begin and end, in seconds since the machine started
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of one step on all devices together. It is computed from the operators, not measured."""

    # floating-point operations of matrix products, convolutions, attention and recurrent layers. A multiply-add counts
    # as two. Elementwise operations, reductions, normalisation and pooling are not counted.
    flops: Count | None = None
    # estimated memory traffic: each operator reads its inputs once and writes its outputs once; caches are ignored
    bytes: Count | None = None
    # Operators launched on each device, without views and bare allocations.
    num_operators: Count | None = None
    # share of `flops` in convolutions with kernels above 5. With FFTs a library needs far fewer operations for these.
    large_kernels: Share = 0.0
    # why a count is None: the names of operators that have no count, or the error
    uncounted: list[str] = field(default_factory=list)

    def of_devices(self, num: int) -> "Work":
        """Returns the work of `num` devices. This object must be the work of one device."""
        flops = None if self.flops is None else num * self.flops
        return replace(self, flops=flops, bytes=None if self.bytes is None else num * self.bytes)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive steps without a wait between them. The clock waits for the device only after the last step."""

    num_steps: AtLeastOne  # steps of the block
    num_samples: AtLeastOne  # samples of all these steps
    seconds: Duration  # from the start of the first step until the last step was done

    @property
    def step_s(self) -> float:
        """The mean seconds of a step."""
        return self.seconds / self.num_steps


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The trained model, evaluated on the whole test set."""

    num_samples: AtLeastOne  # samples of the test set
    seconds: Seconds  # duration of the evaluation
    loss: Number | None  # mean over the test set; None if it diverged, which makes the cell invalid
    accuracy: Share | None = None  # share of right answers, 0 to 1; None for a model that does not classify


@dataclass(frozen=True, kw_only=True)
class Answers:
    """How many answers of a trained classifier on the test set are right, and how many of a reference.

    The reference is the same network with the same weights in PyTorch in fp32.
    """

    num_samples: AtLeastOne  # samples that both classified: the first ones of the test set
    num_right: Count  # right answers of the measured network
    num_fp32_right: Count  # right answers of the reference
    num_won: Count  # samples that the measured network classified rightly and the reference did not


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One whole pass over the data. Its time ends when the device has finished all steps."""

    seconds: Duration  # wall time, including loading of data and compilation
    num_samples: AtLeastOne  # samples that were computed
    began_boot_s: Seconds | None = None  # begin of the epoch, in seconds since the machine started
    loss: Number | None = None  # mean over the epoch's steps; None in inference
    # Share of right answers during training; None for a model that does not classify.
    accuracy: Share | None = None
    # On the test set after the epoch, not part of `seconds`; None in inference.
    evaluation: Evaluation | None = None


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """The wall time of steps, divided into phases."""

    # Seconds, one value per step; the phases of a step add up to the step.
    phases_s: dict[Phase, list[Difference]]
    # seconds of alternate steps that were timed as a whole; the difference is the cost of timing the phases
    undisturbed_s: list[Duration]

    def __post_init__(self) -> None:
        nums = {len(seconds) for seconds in self.phases_s.values()}
        if len(nums) != 1 or 0 in nums or not self.undisturbed_s:
            raise ValueError(
                "all phases should have equally many values, and undisturbed_s at least one value"
            )


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator of the framework in one step."""

    name: str  # the framework's name for the operator
    num_calls: Count  # calls in one step
    share: Share  # time of this operator, divided by the time of all operators


@dataclass(kw_only=True)
class Observed:
    """What really ran, as the engine observed it. The cell's settings may have asked for something else."""

    device: str
    device_name: str
    precision: str
    num_devices: Devices  # devices that computed; each computed an equal part of every batch
    threads: AtLeastOne | None  # CPU threads in each process
    # Time to export the network from PyTorch, once for all cells that load the file.
    export_s: Seconds | None = None
    # Time to calibrate and quantise the exported network, once for all cells.
    quantize_s: Seconds | None = None
    artifact_bytes: Count | None = None  # size of the files of an exported network
    # number format (NumPy's name) -> how many matrix-multiplying operators of a compiled network compute in it
    formats: dict[str, Count] = field(default_factory=dict)
    work: Work | None = None  # the work of one step
    loss: Number | None = None  # loss of the last training step
    tokens_per_sample: Rate | None = None  # mean of the measured batches
    answers: Answers | None = None  # a trained classifier's answers, in inference
    cudnn_benchmark: bool | None = None  # whether cuDNN timed its algorithms to choose the fastest


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """A percentile of the latencies, with its bounds. If there are too few requests, latency and bounds are None."""

    percentile: NotNegative  # such as 99.9
    seconds: Seconds | None  # the latency at this percentile
    low: Seconds | None = None  # lower bound of the latency
    high: Seconds | None = None  # upper bound of the latency


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Requests and their answers. A request's latency is the time from its due time until its answer."""

    seed: Count  # random seed of the arrivals
    num_requests: AtLeastOne  # requests that were due
    num_errors: Count = 0  # requests that raised an error or got no answer; `num_missed` includes them
    error: str | None = None  # the first error of a request, in one line
    duration_s: Duration  # from the first request's due time until the last answer
    offered_per_s: Rate  # requests per second by their due times
    served_per_s: NotNegative  # answers per second
    # At p50, p90, p99, p99.9 and the limit's percentile.
    latencies: list[Quantile] = field(default_factory=list)
    # requests that took longer than the limit or have no answer; None if there is no limit
    num_missed: Count | None = None
    miss_share_low: Share | None = None  # lower bound of the share of missed requests; see `stats`
    miss_share_high: Share | None = None  # upper bound of that share
    design_effect: Rate | None = None  # factor by which clustered misses widen the bounds
    verdict: Verdict | None = None  # whether the percentile is within the limit
    ended_early: str | None = None  # why some requests were not issued, such as a growing queue
    batches: dict[str, Count] = field(default_factory=dict)  # requests in a batch -> number of such batches
    # Batch sizes that the engine can compute; empty: any.
    sizes: list[AtLeastOne] = field(default_factory=list)
    num_padded: Count = 0  # places in batches that no request filled
    queue_s: Seconds | None = None  # mean time from a request's due time until its batch began
    compute_s: Seconds | None = None  # mean time from the begin of a request's batch until its end
    busy_share: Share | None = None  # share of the workers' time in which they computed
    # 99th percentile of the time from a request's due time until it was issued.
    late_p99_s: Seconds | None = None
    requests_digest: Digest | None = None  # sha256 of the file of raw times; None if the file was not kept


@dataclass(frozen=True, kw_only=True)
class Logged:
    """A span of time in which a process did only one thing, such as `train` or `evaluate`. Spans do not overlap."""

    span: Span  # what the process did
    began_s: Seconds  # seconds since the process started
    ended_s: Seconds  # seconds since the process started

    @property
    def seconds(self) -> float:
        return self.ended_s - self.began_s


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """One evaluation on the validation part during a training."""

    num_steps: Count  # training steps before it
    num_samples: Count  # training samples before it
    epochs: NotNegative  # passes over the training part before it, such as 1.25
    value: Number | None  # value of the metric; None if it is not finite
    began_s: Seconds  # seconds since the process started
    ended_s: Seconds  # seconds since the process started


@dataclass(kw_only=True)
class TargetTraining:
    """The training to a target in one process. The engine fills it in."""

    # Samples of an evaluation; None if the user's module does not report them.
    num_validation: AtLeastOne | None
    # Whether equal seeds give equal results on this machine, as far as the engine can promise.
    deterministic: bool
    log: list[Logged] = field(default_factory=list)  # spans of the process, in the order of time
    compile_s: Seconds = 0.0  # time of compilations within the log's training spans
    evaluations: Annotated[list[Evaluated], Meta(min_length=1)]
    # Index of the evaluation that reached the target; None: no evaluation reached it.
    hit: Count | None = None
    # Whether the evaluation after `hit` reached the target, too; None if there was none.
    stayed: bool | None = None
    tested: Number | None = None  # the metric on the test set, with the weights at the end
    # the sweep that first planned this training: seeds added after a look at the results belong to another sweep
    planned_in: str | None = None

    def __post_init__(self) -> None:
        if self.hit is not None and self.hit >= len(self.evaluations):
            raise ValueError("`hit` should be the index of an evaluation")


@dataclass(frozen=True, kw_only=True)
class Generation:
    """The raw times of generated tokens. The lists have one entry per generation of the steady state, in order.

    A generation is one step. It makes one sequence of tokens for each sample of the batch.
    """

    # for each generation, the seconds until all its sequences have their first token
    prefill_s: list[Duration] = field(default_factory=list)
    # for each generation, the seconds of each decode step; a decode step adds one token to each sequence
    decode_s: list[list[Duration]] = field(default_factory=list)
    cache_bytes: Count  # size of the key-value cache after the last token

    def __post_init__(self) -> None:
        if len(self.prefill_s) != len(self.decode_s) or not all(self.decode_s):
            raise ValueError("decode_s should have one or more times for each generation in prefill_s")


@dataclass(kw_only=True)
class Times:
    """The times of a cell's steps. The clock fills them in, and a measurement has them."""

    first_step_s: Duration | None = None  # time of the first step, with a wait for the device
    # Times of the first warm-up steps, each with a wait.
    warmup_s: list[Seconds] = field(default_factory=list)
    warmup_total_s: Seconds = 0.0  # time of all warm-up steps
    num_warmup_steps: Count = 0  # number of all warm-up steps; 0 if unknown
    # Whether step times had stopped changing when warm-up ended; None: not checked.
    settled: bool | None = None
    stop: Stop | None = None  # why no more blocks were measured; None for whole epochs
    # The steady state, from which the throughput is computed.
    blocks: list[Block] = field(default_factory=list)
    # whether the blocks consist of the steps of `latency_s`; otherwise blocks and single steps are separate steps
    steps_are_blocks: bool = False
    # times of the steady state's single steps, with a wait after each step. In Keras, a step has `steps_per_execution`
    # batches
    latency_s: list[Duration] = field(default_factory=list)
    launch_s: list[Seconds] = field(default_factory=list)  # time until the call of each single step returned
    # Time to get the batch; empty if the step itself fetches it.
    data_s: list[Seconds] = field(default_factory=list)
    copy_in_s: list[Seconds] = field(default_factory=list)  # time to copy the batch to the device
    copy_out_s: list[Seconds] = field(default_factory=list)  # time to copy the result back
    # Samples computed in the steady state, including dropped blocks.
    num_steady_samples: AtLeastOne | None = None
    # begin and end of the steady state, or of the epochs, in seconds since the machine started
    steady_boot_s: tuple[Seconds, Seconds] | None = None

    @property
    def num_timed_steps(self) -> int:
        """The number of timed steps of the steady state. A step that is in a block and in `latency_s` counts once."""
        num_in_blocks = sum(block.num_steps for block in self.blocks)
        return num_in_blocks if self.steps_are_blocks else num_in_blocks + len(self.latency_s)


@dataclass(kw_only=True)
class Measurement(Observed, Times):
    """One cell's measurement. Seconds are wall time. A list of seconds has one value per step, in order.

    A value of None means that the engine can't observe it, or that it does not apply to the cell.
    """

    num_params: Count  # trainable parameters
    num_train_samples: AtLeastOne | None  # samples of the training set; None for random images
    num_test_samples: AtLeastOne | None  # samples of the test set; None for random images
    build_s: Seconds  # time to build the model and to put it onto its device
    # Time of compilations: by XLA, by torch.compile, or of an exported network.
    compile_s: Seconds | None = None
    num_compiles: Count | None = None  # number of these compilations
    fallbacks: list[str] | None = None  # operators that ran on the CPU instead of the device
    breakdown: Breakdown | None = None  # phases of additional steps
    # Operators with most of a step's time, longest first.
    operators: list[Operator] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)  # whole epochs (protocol `fit`)
    serving: Serving | None = None  # requests and their answers, for protocols that serve
    generation: Generation | None = None  # times of tokens, for mode `generate`
    target: TargetTraining | None = None  # log of a training to a target (protocol `target`)
    evaluation: Evaluation | None = None  # on the test set after the last epoch of training
    # norm of (output - reference output), divided by the norm of the reference output. The reference ran in fp32 on the
    # CPU with the same samples. None if the outputs were not compared.
    output_error: Number | None = None
    # Peak of the accelerator's allocator; the largest of several devices.
    peak_device_bytes: Count | None = None
    # The kernel's high-water mark of all processes at the end of measuring.
    peak_host_bytes: Count | None = None
    # As observed: a word of `cell.Allocator`, `glibc`, or another library's name.
    allocator: str | None = None
    allocator_library: str | None = None  # such as `libtcmalloc_minimal.so.4.5.10`
    checked: list[str] = field(default_factory=list)  # words for what was checked, such as "outputs"
    checks_s: Seconds | None = None  # duration of the checks; no timed step includes it
    notes: list[str] = field(default_factory=list)  # facts about the measurement that raise no doubt
    warnings: list[str] = field(default_factory=list)  # what a reader of the numbers should know
    # Why the numbers are wrong; a cell with any is `invalid`.
    defects: list[str] = field(default_factory=list)

    @property
    def samples_per_step(self) -> float | None:
        """The mean number of samples in a step, over all steps of the blocks. None if there are no blocks."""
        num_steps = sum(block.num_steps for block in self.blocks)
        return sum(block.num_samples for block in self.blocks) / num_steps if num_steps else None

    @property
    def is_partial(self) -> bool:
        """Whether `timeout_s` ended the cell before everything was measured."""
        return self.stop == Stop.timeout

    @property
    def steady_rates(self) -> list[float]:
        """The samples/s of each steady epoch. If no whole epochs ran: the samples/s of each block. May be empty."""
        return [part.num_samples / part.seconds for part in self.steady_epochs or self.blocks]

    @property
    def steady_epochs(self) -> list[Epoch]:
        """All epochs except the first, which includes warm-up and compilation. If only one epoch ran, it is kept."""
        return self.epochs[1:] or self.epochs


@dataclass(frozen=True, kw_only=True)
class SystemSeries:
    """Samples of the system's counters, taken from the start of the cell's process until it sent its result."""

    # start of the process, in seconds since the machine started; None without samples
    started_boot_s: Seconds | None = None
    # Time of each sample, in seconds since the process started.
    t_s: list[Difference] = field(default_factory=list)
    # name -> one value per sample; None if that sample failed. A name ends in its unit, such as `gpu_0_power_w`
    values: dict[SeriesName, list[Reading | None]] = field(default_factory=dict)
    peak_host_bytes: Count | None = None  # the larger of the kernel's high-water mark and the largest sample
    num_cores: AtLeastOne | None = None  # logical cores that `other_cpu_utilization_percent` refers to
    # Other processes' load on the cell's GPUs before it started; None without load.
    busy_gpus: str | None = None

    def __post_init__(self) -> None:
        for name, values in self.values.items():
            if len(values) != len(self.t_s):
                raise ValueError(f"{name} should have {len(self.t_s)} values, as t_s has")

    def within(self, name: str, boot_s: Interval | None) -> list[float]:
        """Returns the known values of a series between two times: `boot_s`, in seconds since the machine started.

        If the series or `boot_s` is unknown, the list is empty.
        """
        if boot_s is None or self.started_boot_s is None or name not in self.values:
            return []
        low, high = (time_s - self.started_boot_s for time_s in boot_s)
        values = zip(self.t_s, self.values[name], strict=True)
        return [value for t_s, value in values if value is not None and low <= t_s <= high]

    def mean(self, name: str, boot_s: Interval | None) -> float | None:
        """Returns the mean of the values that `within` returns. Returns None if there are none."""
        values = self.within(name, boot_s)
        return fmean(values) if values else None

    def increase(self, name: str, boot_s: Interval | None) -> float:
        """Returns by how much a counter rose in an interval (see `within`). Returns 0 if it is unknown, or fell."""
        values = self.within(name, boot_s)
        return max(0.0, values[-1] - values[0]) if values else 0.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a cell ended: its status, the reason, and what was measured."""

    status: Status  # how the cell ended
    reason: str | None = None  # why the status is not `ok`, in one line; None if it is `ok`
    # End of the traceback, of the process's output, or of the calls in which it hung.
    error: str | None = None
    user_error: bool = False  # whether the user's request or code is the mistake; `reason` explains it
    measurement: Measurement | None = None  # None if the cell ended before it measured
    system: SystemSeries | None = None  # None if the cell ended before its process started


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data set that a cell read, from its manifest."""

    name: str  # name of the data set
    digest: str  # digest of the manifest; any changed byte of the data changes it
    source: str  # where the data came from, in words
    stand_in: bool  # whether other data replaces the data set of this name, because it was not available


class GpuDetails(TypedDict, total=False):
    """One GPU of `Machine.gpus`. A value that its driver does not report is None."""

    memory_gb: Count | None  # memory of the card
    multiprocessors: Count | None  # number of streaming multiprocessors
    compute_capability: str | None  # as CUDA names it, such as `9.0`


class Machine(TypedDict, total=False):
    """The entries of `Environment.machine` that accelbench reads."""

    cpu_name: str | None  # the operating system's name for the CPU
    num_cores: AtLeastOne | None  # physical cores
    num_threads: AtLeastOne | None  # logical cores
    gpus: list[str]  # names of the NVIDIA GPUs
    gpu_details: list[GpuDetails]  # details of each GPU, in the order of `gpus`
    tpus: list[str]  # names of the TPUs


class Git(TypedDict, total=False):
    """The state of the git checkout. It is empty if there is no checkout."""

    revision: str | None  # the commit that is checked out
    branch: str | None  # the branch that is checked out
    dirty: bool  # whether tracked files differ from the commit


class Environment(TypedDict, total=False):
    """The entries of a record's environment that have a known type. An environment may have further entries."""

    machine: Machine  # the hardware
    versions: Mapping[str, str]  # versions of Python, packages and drivers
    variables: Mapping[str, str]  # environment variables that change the speed of a cell
    code: str  # digest of the code that measures
    probe_code: str  # digest of the code that probes devices
    git: Git  # the checkout
    files: Mapping[str, str]  # digests of the user's own code, of weights and of an allocator's library
    home: Mapping[str, Any]  # if `python` is set: machine and versions of accelbench's own environment
    node: Mapping[str, str]  # the node of a cluster; absent on a single machine
    idle_w: Mapping[str, Reading]  # power of each device while nothing ran, in watts
    ceilings: Mapping[str, Any] | None  # highest speeds that a probe reached on the device
