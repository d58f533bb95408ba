"""The words of the field. A member's name is the word that the command line and the records use."""

from enum import StrEnum


class Device(StrEnum):
    """Where a cell computes. `xla_cpu` is the TPU's software path on the CPU, never called a TPU."""

    cpu = "cpu"
    gpu = "gpu"
    tpu = "tpu"
    xla_cpu = "xla_cpu"


# What torch_xla drives.
XLA = frozenset({Device.tpu, Device.xla_cpu})
# There is one on a machine: several devices of it are parts of it.
SHARE_ONE_CPU = frozenset({Device.cpu, Device.xla_cpu})


class Library(StrEnum):
    """Where a network comes from: accelbench's own definitions, another library's, or the user's own class."""

    accelbench = "accelbench"
    timm = "timm"
    torchvision = "torchvision"
    custom = "custom"


class Weights(StrEnum):
    """`none` are drawn from the cell's seed; `pretrained` are the library's own, downloaded."""

    none = "none"
    pretrained = "pretrained"


class Engine(StrEnum):
    """The framework that runs a cell."""

    lightning = "lightning"
    keras = "keras"


class KerasBackend(StrEnum):
    """What computes below Keras."""

    tensorflow = "tensorflow"
    jax = "jax"


class Scaling(StrEnum):
    """What several devices share: `strong` divides the batch among them, `weak` gives each a batch of that size."""

    strong = "strong"
    weak = "weak"


class Precision(StrEnum):
    """Number formats: `fp16` to `fp64` hold for weights and compute; `*_mixed` keeps fp32 weights."""

    fp16 = "fp16"
    bf16 = "bf16"
    fp32 = "fp32"
    tf32 = "tf32"
    fp64 = "fp64"
    fp16_mixed = "fp16_mixed"
    bf16_mixed = "bf16_mixed"


class Mode(StrEnum):
    """What a cell does with its model."""

    train = "train"
    infer = "infer"


class Protocol(StrEnum):
    """How long is measured.

    `window` takes as many steps as its bounds in seconds allow, `steps` a fixed number of them, as most studies did,
    and `fit` runs whole epochs.
    """

    window = "window"
    steps = "steps"
    fit = "fit"


class Pipeline(StrEnum):
    """How batches come to be.

    `array` gathers them from decoded arrays, `jpeg` decodes pictures for each batch in worker processes. Random images
    lie ready on the `host`, to be copied for each step, or on the `device`, or are drawn `fresh` for each step.
    """

    array = "array"
    jpeg = "jpeg"
    host = "host"
    device = "device"
    fresh = "fresh"


RANDOM_IMAGE_PIPELINES = (Pipeline.host, Pipeline.device, Pipeline.fresh)
RANDOM = "random"  # the data set without files


class Augment(StrEnum):
    """How training images are varied, on the device: mirrored at random; and moved by up to an eighth too."""

    none = "none"
    flip = "flip"
    flip_shift = "flip_shift"


class Status(StrEnum):
    """How a cell ended. Every cell ends in exactly one of these, with a reason unless `ok`."""

    ok = "ok"
    skipped = "skipped"
    failed = "failed"
    oom = "oom"
    timeout = "timeout"
    killed = "killed"
    invalid = "invalid"


# Statuses that nobody asked for: a sweep that holds one exits 1, and `retry=failed` tries some again.
UNEXPECTED = frozenset({Status.failed, Status.oom, Status.timeout, Status.killed, Status.invalid})
RETRIED = frozenset({Status.failed, Status.timeout, Status.killed})


class Stop(StrEnum):
    """Why no more was measured.

    `precise`: the median's interval is within the asked width. `noisy`: the noise is stable, and too much for that.
    `limit`: the time was up. `fixed`: so many steps were asked for.
    """

    precise = "precise"
    noisy = "noisy"
    limit = "limit"
    fixed = "fixed"


class Phase(StrEnum):
    """The parts of a step's wall time. `framework` is what is left of it.

    A device that runs a recorded step as a whole has `trace` (recording it) and `execute` (launching and running it) in
    place of `forward`, `backward` and `optimizer`.
    """

    data_wait = "data_wait"
    copy_in = "copy_in"
    forward = "forward"
    backward = "backward"
    optimizer = "optimizer"
    trace = "trace"
    execute = "execute"
    copy_out = "copy_out"
    framework = "framework"


class Provenance(StrEnum):
    """What a published number is. An `unavailable` number is empty, never 0."""

    measured = "measured"
    estimated = "estimated"


class Bound(StrEnum):
    """What a step waits for longest: arithmetic, memory, the launching of its operators, its data, or copies of it."""

    compute = "compute"
    memory = "memory"
    launch = "launch"
    data = "data"
    copy = "copy"


class CeilingVerdict(StrEnum):
    """A rate against the ceiling: `above` calls for a second look, `beyond` can't be true."""

    below = "below"
    above = "above"
    beyond = "beyond"
