"""What was measured of one cell, raw times and counts, from which all statistics are derived; and the conditions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from accelbench.schema.ranges import (
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
from accelbench.schema.vocab import Phase, Promise, Span, Status, Stop, Verdict

SeriesName = Annotated[str, Meta(pattern="^[A-Za-z0-9_]+$")]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of one step, over all devices that share its batch, counted from its operators, not measured."""

    # floating-point operations of matrix products, convolutions, attention and recurrent layers; a multiply-add counts
    # as two. Elementwise work, reductions, normalisation and pooling are not counted.
    flops: Count | None = None
    # estimated memory traffic: each operator reads its inputs and writes its outputs once, without caches
    bytes: Count | None = None
    num_operators: Count | None = None  # operators launched on each device, without views and bare allocations
    # the part of the operations in convolutions with kernels above 5, which FFTs do with far fewer
    large_kernels: Share = 0.0
    # why a count is None: names of operators without a known count, or the error
    uncounted: list[str] = field(default_factory=list)

    def of_devices(self, num: int) -> "Work":
        """The work of `num` devices, if this is the work of one of them."""
        flops = None if self.flops is None else num * self.flops
        return replace(self, flops=flops, bytes=None if self.bytes is None else num * self.bytes)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive steps that ran freely; the clock waited for the device only after the last one."""

    num_steps: AtLeastOne  # that were launched one after another
    num_samples: AtLeastOne  # of all these steps
    seconds: Duration  # until the last one was done


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The trained model, evaluated on the whole test set."""

    num_samples: AtLeastOne  # of the test set
    seconds: Seconds  # that it took
    loss: Number | None  # mean over the test set; None if it diverged, which makes the cell invalid
    accuracy: Share | None = None  # share of right answers, 0 to 1; None for a model that does not classify


@dataclass(frozen=True, kw_only=True)
class Answers:
    """A trained classifier's answers on the test set, beside those of the same weights in fp32 in PyTorch."""

    num_samples: AtLeastOne  # that both were asked, from the first one of the test set
    num_right: Count  # right answers of what was measured
    num_fp32_right: Count  # right answers in fp32
    num_won: Count  # samples that only what was measured answered rightly


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One whole pass over the data; the clock waited for the device at its end."""

    seconds: Duration  # wall time, loading of data and compilation included
    num_samples: AtLeastOne  # samples that were computed
    began_boot_s: Seconds | None = None  # when it began, in seconds since the machine started
    data_s: Seconds | None = None  # of `seconds`, the time to get the batches; None if the steps fetch them themselves
    loss: Number | None = None  # mean over the epoch's steps; None in inference
    accuracy: Share | None = None  # share of right answers during training; None for a model that does not classify
    evaluation: Evaluation | None = None  # on the test set after the epoch, not part of `seconds`; None in inference


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """How the wall time of steps divides into phases."""

    phases_s: dict[Phase, list[Difference]]  # seconds, one value per step; the phases of a step add up to the step
    undisturbed_s: list[Duration]  # of alternate steps that were timed as a whole: the difference is the timing's cost

    def __post_init__(self) -> None:
        nums = {len(seconds) for seconds in self.phases_s.values()}
        if len(nums) != 1 or 0 in nums or not self.undisturbed_s:
            raise ValueError("each phase should have as many values, and undisturbed_s at least one")


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator of the framework in one step: the number of its calls, and its share of all operators' time."""

    name: str  # as the framework says it
    num_calls: Count  # in one step
    share: Share  # of the time of all operators


@dataclass(frozen=True, kw_only=True)
class Check:
    """What was observed of a promise; docs/measuring.md has the table of all of them."""

    promise: Promise
    observed: str = "not observed"  # in words
    share: Share | None = None  # of the work that was looked at; None if unknown or nothing was: no sign of health


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What really ran, as the engine observed it, which may differ from the cell's settings."""

    device: str
    device_name: str
    precision: str
    num_devices: Devices  # how many devices computed, each an equal part of every batch
    threads: AtLeastOne | None  # CPU threads in each process
    export_s: Seconds | None = None  # to export the network from PyTorch, once for all cells that load the file
    quantize_s: Seconds | None = None  # to quantise the exported network, calibration included, once like the export
    artifact_bytes: Count | None = None  # of the files that an exported network was compiled from or to
    # how many operators that multiply matrices compute in which format, by NumPy's names, in a compiled network
    formats: dict[str, Count] = field(default_factory=dict)
    work: Work | None = None  # the work of one step
    loss: Number | None = None  # of the last training step's batch
    tokens_per_sample: Rate | None = None  # of the batches that were measured
    answers: Answers | None = None  # of a trained classifier in inference, by an engine that exports it
    cudnn_benchmark: bool | None = None  # whether cuDNN tried its algorithms to choose the fastest


@dataclass(frozen=True, kw_only=True)
class Quantile:
    """The latency that a share of the requests is within, with its bounds; None where too few requests tell."""

    percentile: NotNegative  # such as 99.9
    seconds: Seconds | None  # the latency
    low: Seconds | None = None  # its lower bound
    high: Seconds | None = None  # its upper bound


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Requests and how they were answered. A latency is from the time that a request was due until its answer."""

    seed: Count  # of the arrivals
    num_requests: AtLeastOne  # that were due
    num_errors: Count = 0  # that raised or were never answered: misses
    error: str | None = None  # of the first that raised, in one line
    duration_s: Duration  # from the first request's due time until the last answer
    offered_per_s: Rate  # requests per second, as they were due
    served_per_s: NotNegative  # as they were answered
    latencies: list[Quantile] = field(default_factory=list)  # of p50, p90, p99, p99.9, and of the limit
    # num_missed, of requests that took longer than the limit or have no answer; None where there is no limit
    num_missed: Count | None = None
    miss_share_low: Share | None = None  # of their share, the lower bound; see `stats`
    miss_share_high: Share | None = None  # the upper bound
    design_effect: Rate | None = None  # by how much misses in clusters widen the bounds
    verdict: Verdict | None = None  # whether the percentile is within the limit
    ended_early: str | None = None  # why not all requests were issued, such as a queue that grows
    batches: dict[str, Count] = field(default_factory=dict)  # requests of a batch -> how many such batches
    sizes: list[AtLeastOne] = field(default_factory=list)  # of batches that can be computed; empty: any
    num_padded: Count = 0  # places in batches that no request filled
    queue_s: Seconds | None = None  # of a request on average: until its batch began
    compute_s: Seconds | None = None  # of a request on average: until its batch was done
    busy_share: Share | None = None  # of the workers' time in which they computed
    late_p50_s: Seconds | None = None  # how late requests were issued
    is_late: bool = False  # whether that was too late, so that they were not those asked for
    late_p99_s: Seconds | None = None  # the 99th percentile of that
    requests_digest: Digest | None = None  # sha256 of the file of raw times; None if it was not kept

    @property
    def num_answered(self) -> int:
        """Those with an answer, early or late."""
        return round(self.served_per_s * self.duration_s)


@dataclass(frozen=True, kw_only=True)
class Logged:
    """A span of the process, in seconds since it started; spans follow each other and do not overlap."""

    span: Span  # what the process did
    began_s: Seconds  # since it started
    ended_s: Seconds  # since it started

    @property
    def seconds(self) -> float:
        return self.ended_s - self.began_s


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """An evaluation on the validation part, after so much training."""

    num_steps: Count  # of training, before it
    num_samples: Count  # of training, before it
    epochs: NotNegative  # passes over the training part, such as 1.25
    value: Number | None  # of the metric; None if it is not finite
    began_s: Seconds  # since the process started
    ended_s: Seconds  # since the process started


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """What earlier releases kept of a process that ended without a measurement."""

    num_requests: Count = 0  # that were issued
    num_answered: Count = 0  # of them
    requests_digest: Digest | None = None  # sha256 of the file with their raw times; None without one
    evaluations: list[Evaluated] = field(default_factory=list)  # of a training to a target


@dataclass(frozen=True, kw_only=True)
class TargetTraining:
    """A training to a target, of one process."""

    num_validation: AtLeastOne | None  # samples that it is evaluated on; None if the user's module does not tell
    deterministic: bool  # whether equal seeds give equal results on this machine, as far as the engine can promise
    log: list[Logged] = field(default_factory=list)  # in the order of time
    compile_s: Seconds = 0.0  # of the log's spans of training, the time of compilations
    evaluations: list[Evaluated] = field(default_factory=list)
    hit: Count | None = None  # the evaluation that reached the target; None: none of them did
    stayed: bool | None = None  # whether the one after it reached it, too; None without one
    tested: Number | None = None  # the metric on the test set, of the weights at the end
    planned_in: str | None = None  # the sweep that first planned it: seeds that were added after a look are another's

    def __post_init__(self) -> None:
        if (self.hit or 0) >= len(self.evaluations):
            raise ValueError("evaluations should have that of the hit, and at least one")


@dataclass(frozen=True, kw_only=True)
class Generation:
    """Raw times of generated tokens: the generations of the steady state, in order.

    Each is a step, of one sequence for each sample of the batch.
    """

    prefill_s: list[Duration] = field(default_factory=list)  # of each, until the first token of all its sequences
    # of each, the times of its further tokens: one decode step gives one token of each sequence
    decode_s: list[list[Duration]] = field(default_factory=list)
    cache_bytes: Count  # of the tensors of the key-value cache, once the last token was decoded

    def __post_init__(self) -> None:
        if len(self.prefill_s) != len(self.decode_s) or not all(self.decode_s):
            raise ValueError("decode_s should have the times of each generation's further tokens")


@dataclass(frozen=True, kw_only=True)
class Measurement(Observed):
    """One cell's measurement. Seconds are wall time; a list has one value per step, in order.

    None: the engine can't tell, or the cell has no such thing.
    """

    num_params: Count  # trainable parameters
    num_train_samples: AtLeastOne | None  # in this split; None for random images
    num_test_samples: AtLeastOne | None
    build_s: Seconds  # time to build the model and put it onto its device
    compile_s: Seconds | None = None  # of compilations by XLA, by torch.compile or of an exported network
    num_compiles: Count | None = None
    fallbacks: list[str] | None = None  # operators that ran on the CPU instead of the device
    first_step_s: Duration | None = None  # the first step, waited for
    warmup_s: list[Seconds] = field(default_factory=list)  # the first warm-up steps, each waited for
    warmup_total_s: Seconds = 0.0  # of all warm-up steps
    num_warmup_steps: Count = 0  # of all; 0 if unknown
    settled: bool | None = None  # whether step times had stopped changing when warm-up ended; None: not checked
    stop: Stop | None = None  # why no more blocks were measured; None for whole epochs
    blocks: list[Block] = field(default_factory=list)  # the steady state, from which the throughput is computed
    # whether they are made of the steps of `latency_s`, each of which ran once; else those are further steps
    steps_are_blocks: bool = False
    dropped_s: Seconds | None = None  # seconds of the steady state that belong to no block and no step
    # single steps of the steady state, each waited for; in Keras, each of `steps_per_execution` batches
    latency_s: list[Duration] = field(default_factory=list)
    launch_s: list[Seconds] = field(default_factory=list)  # of each of them, the time until the call returned
    data_s: list[Seconds] = field(default_factory=list)  # to get the batch; empty if the step itself fetches it
    copy_in_s: list[Seconds] = field(default_factory=list)  # to copy the batch to the device
    copy_out_s: list[Seconds] = field(default_factory=list)  # to copy the result back
    num_steady_samples: AtLeastOne | None = None  # computed in the steady state, discarded blocks included
    steady_boot_s: tuple[Seconds, Seconds] | None = None  # its begin and end, or the epochs', since the machine started
    clock_drift: Number | None = None  # how much faster the clock ran than one that is never adjusted, as a share
    breakdown: Breakdown | None = None  # phases of additional steps
    operators: list[Operator] = field(default_factory=list)  # those that take most of a step's time, longest first
    epochs: list[Epoch] = field(default_factory=list)  # whole epochs (protocol `fit`)
    serving: Serving | None = None  # requests and their answers, of the protocols that serve
    generation: Generation | None = None  # the times of tokens, of mode `generate`
    target: TargetTraining | None = None  # the log of a training to a target (protocol `target`)
    evaluation: Evaluation | None = None  # on the test set after the last epoch of training
    # norm of the difference between the output for some samples and that in fp32 on the CPU, over the latter's norm;
    # None in training, and for plain fp32 on the CPU
    output_error: Number | None = None
    peak_device_bytes: Count | None = None  # of the accelerator's allocator, of several devices the largest
    peak_host_bytes: Count | None = None  # the kernel's high-water mark when measuring ended, of all processes
    allocator: str | None = None  # as observed: a word of `vocab.Allocator`, `glibc`, or the name of another library
    allocator_library: str | None = None  # such as `libtcmalloc_minimal.so.4.5.10 gperftools 2.10`
    checks: list[Check] = field(default_factory=list)  # what was observed of each promise
    checks_s: Seconds | None = None  # how long observing took; none of it is in what is timed
    notes: list[str] = field(default_factory=list)  # of what was measured, without a doubt about the numbers
    warnings: list[str] = field(default_factory=list)  # what a reader of the numbers should know
    defects: list[str] = field(default_factory=list)  # what makes the numbers wrong: with any, the cell is `invalid`

    @property
    def samples_per_step(self) -> float | None:
        """The mean of all steps of the blocks; None without blocks."""
        num_steps = sum(block.num_steps for block in self.blocks)
        return sum(block.num_samples for block in self.blocks) / num_steps if num_steps else None

    @property
    def num_timed_steps(self) -> int:
        """Steps of the steady state whose times were kept, each counted once."""
        num_in_blocks = sum(block.num_steps for block in self.blocks)
        return num_in_blocks if self.steps_are_blocks else num_in_blocks + len(self.latency_s)

    @property
    def is_partial(self) -> bool:
        """Whether `timeout_s` ended it before all that was asked for was measured."""
        return self.stop == Stop.timeout

    @property
    def steady_rates(self) -> list[float]:
        """Samples/s, one value for each steady epoch if whole epochs were run, else for each block; may be empty."""
        return [part.num_samples / part.seconds for part in self.steady_epochs or self.blocks]

    @property
    def steady_epochs(self) -> list[Epoch]:
        """All epochs but the first, which includes warm-up and compilation; the first if there is no other."""
        return self.epochs[1:] or self.epochs


@dataclass(frozen=True, kw_only=True)
class SystemSeries:
    """Samples of the system, taken from the start of a cell's process to its answer."""

    started_boot_s: Seconds | None = None  # when the process started, since the machine did; None without samples
    t_s: list[Difference] = field(default_factory=list)  # seconds since the process started, one value per sample
    # name -> one value per sample; None if that sample failed. Names end in their unit, such as `gpu_0_power_w`
    values: dict[SeriesName, list[Reading | None]] = field(default_factory=dict)
    peak_host_bytes: Count | None = None  # the larger of the kernel's high-water mark and the largest sample
    num_cores: AtLeastOne | None = None  # logical cores that `other_cpu_utilization_percent` is of
    busy_gpus: str | None = None  # what other processes did on its GPUs before it started; None if nothing

    def __post_init__(self) -> None:
        for name, values in self.values.items():
            if len(values) != len(self.t_s):
                raise ValueError(f"{name} should have {len(self.t_s)} values, as t_s has")

    def within(self, name: str, boot_s: tuple[float, float] | None) -> list[float]:
        """The known values of a series from the begin to the end `boot_s`, in seconds since the machine started."""
        if boot_s is None or self.started_boot_s is None or name not in self.values:
            return []
        low, high = (time_s - self.started_boot_s for time_s in boot_s)
        values = zip(self.t_s, self.values[name], strict=True)
        return [value for t_s, value in values if value is not None and low <= t_s <= high]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a cell ended, and what is kept of it."""

    status: Status  # how the cell ended
    reason: str | None = None  # why the status is not `ok`, in one line; None if it is
    error: str | None = None  # the end of the traceback, of the process's output, or of the calls it hung in
    user_error: bool = False  # whether a mistake in the user's request, which `reason` explains, made it fail
    measurement: Measurement | None = None  # None if the cell did not get that far
    system: SystemSeries | None = None  # None if the cell did not get that far
    unfinished: Unfinished | None = None  # in earlier releases, what is kept if it has no measurement


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data set that a cell read, as its manifest describes it."""

    name: str
    digest: str  # of the manifest; changes with any byte of the data
    source: str  # where the data came from, in words
    stand_in: bool  # True if the data only replaces the data set of this name, which could not be had
    # Share of the test images that are training images, too; None if it is small, or of an earlier release
    test_in_training: Share | None = None


class GpuDetails(TypedDict, total=False):
    """One GPU of `Machine.gpus`; what its driver does not report is None."""

    memory_gb: Count | None  # of the card
    multiprocessors: Count | None  # streaming multiprocessors
    compute_capability: str | None  # as CUDA names it, such as `9.0`


class Machine(TypedDict, total=False):
    """The entries of `Environment.machine` that are computed with or listed."""

    cpu_name: str | None  # as the system names it
    num_cores: AtLeastOne | None  # physical ones
    num_threads: AtLeastOne | None  # logical cores
    gpus: list[str]  # the names of NVIDIA's GPUs
    gpu_details: list[GpuDetails]  # of each of them, in the same order
    tpus: list[str]  # the names of TPUs


class Git(TypedDict, total=False):
    """The state of the checkout; empty without one."""

    revision: str | None  # the commit that is checked out
    branch: str | None  # its branch
    dirty: bool  # whether tracked files differ from it


class Environment(TypedDict, total=False):
    """What a record's environment has of these entries is of these types; it may have others."""

    machine: Machine  # the hardware
    versions: Mapping[str, str]  # of Python, of packages and of drivers
    variables: Mapping[str, str]  # environment variables that change how fast a cell runs
    code: str  # digest of the code that measures
    probe_code: str  # digest of the code that probes devices
    git: Git  # the checkout
    files: Mapping[str, str]  # digests of own code, of weights and of an allocator's library
    home: Mapping[str, Any]  # with the setting `python`: machine and versions of accelbench's own environment
    node: Mapping[str, str]  # of a cluster; not there on a machine alone
    idle_w: Mapping[str, Reading]  # watts of each device while nothing ran
    ceilings: Mapping[str, Any] | None  # the highest speeds that were probed of the device
