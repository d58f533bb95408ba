"""The words that settings and records use. On the command line and in files each member is written by its name."""

from enum import StrEnum

# The hardware that computes: `gpu` is NVIDIA's, `xpu` Intel's, `mps` Apple's. `xla_cpu` runs torch_xla, the TPU's
# software, on the CPU; it is no TPU.
Device = StrEnum("Device", ["cpu", "gpu", "tpu", "xpu", "mps", "xla_cpu"])
# Devices that torch_xla drives. `tpu` has torch_tpu's driver instead where that is installed.
XLA = frozenset({Device.tpu, Device.xla_cpu})
# Devices that share one CPU: several of them are parts of it, not more hardware.
SHARE_ONE_CPU = frozenset({Device.cpu, Device.xla_cpu})

# The framework that runs a cell. `pytorch`: a bare loop; `lightning`: Lightning's Trainer.
Engine = StrEnum("Engine", ["pytorch", "lightning", "keras", "onnxruntime", "openvino", "aotinductor"])
# Engines that compute with PyTorch itself, on any device.
ON_TORCH = frozenset({Engine.pytorch, Engine.lightning})
# Engines that run an exported network of PyTorch: inference on the CPU.
EXPORTING = frozenset({Engine.onnxruntime, Engine.openvino, Engine.aotinductor})

# The framework that Keras computes with.
KerasBackend = StrEnum("KerasBackend", ["tensorflow", "jax"])

# Where a network is defined: in accelbench, in another library, or in a class of the user. `custom`: a torch.nn.Module,
# for which accelbench makes the training step. `lightning`: a LightningModule, whose own training step, optimisers and
# hooks run.
Library = StrEnum("Library", ["accelbench", "timm", "torchvision", "transformers", "custom", "lightning"])
USERS_OWN = frozenset({Library.custom, Library.lightning})  # libraries whose networks are code of the user

# A network's initial weights: `none` draws them from the seed, `pretrained` downloads them from the library.
Weights = StrEnum("Weights", ["none", "pretrained"])
# What a network of the library transformers is for: its head and its loss.
Task = StrEnum("Task", ["classification", "masked_lm", "causal_lm"])
# What a network returns: `logits` of shape (batch, classes), or `any` structure of tensors.
ModelOutput = StrEnum("ModelOutput", ["logits", "any"])
# How the batch grows with the devices: `strong` divides one batch among them, `weak` gives each a whole one.
Scaling = StrEnum("Scaling", ["strong", "weak"])

# Number formats. `fp16` to `fp64` hold weights and computation; `*_mixed` computes in 16 bits on fp32 weights. `int8`
# multiplies integers wherever the engine can, quantised statically with ranges of the cell's data; the rest is fp32.
Precision = StrEnum("Precision", ["fp16", "bf16", "fp32", "tf32", "fp64", "fp16_mixed", "bf16_mixed", "int8"])
# Precisions that a network must be quantised for; only engines that export it do that.
QUANTIZED = frozenset({Precision.int8})
NOT_QUANTIZED = tuple(word for word in Precision if word not in QUANTIZED)

# `generate`: a language model continues prompts, token by token.
Mode = StrEnum("Mode", ["train", "infer", "generate"])
STEP_MODES = (Mode.train, Mode.infer)  # that any network has

# What gives a cell's process its memory. `glibc_reuse`: glibc's own, which keeps large freed blocks for the next step.
Allocator = StrEnum("Allocator", ["default", "jemalloc", "tcmalloc", "glibc_reuse"])

# What decides how many steps are measured: bounds in seconds and a target precision (`cell.Window`), a fixed number, or
# whole epochs; `target` trains until a metric is reached. The others serve requests, in MLPerf's four scenarios:
# arriving at a rate, one after another, several at once one after another, and all at once.
Protocol = StrEnum(
    "Protocol", ["window", "steps", "fit", "target", "server", "single_stream", "multi_stream", "offline"]
)
EPOCHS = frozenset({Protocol.fit, Protocol.target})  # they train whole epochs
# When a target is reached: at the first evaluation that meets it, or at the end of a length that is fixed in advance.
Definition = StrEnum("Definition", ["passage", "fixed"])
# What a process that trains to a target does, one after the other: `start` is from the fork of the process until the
# engine begins; `test` is the last evaluation, on the test set.
Span = StrEnum("Span", ["start", "data", "build", "train", "evaluate", "test"])
SERVING = frozenset({Protocol.server, Protocol.single_stream, Protocol.multi_stream, Protocol.offline})
# What makes the requests: accelbench's own generator; MLPerf's LoadGen only in records of earlier releases.
Generator = StrEnum("Generator", ["own", "loadgen"])

# How batches are made. From a prepared data set: `array` gathers decoded images, `jpeg` decodes picture files in worker
# processes. From random images: `host` copies ready batches to the device at each step, `device` keeps them there,
# `fresh` draws new ones at each step.
Pipeline = StrEnum("Pipeline", ["array", "jpeg", "host", "device", "fresh"])
RANDOM_IMAGE_PIPELINES = (Pipeline.host, Pipeline.device, Pipeline.fresh)
RANDOM = "random"  # the name of the data set without files
OWN_BATCHES = "own batches"  # what is said of the data of `model.batch` and of a network that `measure` is called with
FOLDER, ARRAYS = "folder", "arrays"  # the data sets of the user's pictures by class, and of their arrays
MODULE = "module"  # the name of the data set that a LightningDataModule of the user gives

# How training images are varied on the device: `flip` mirrors at random, `flip_shift` also shifts by up to 1/8.
Augment = StrEnum("Augment", ["none", "flip", "flip_shift"])

# How a cell ended. Every status but `ok` has a reason. `skipped`: the machine or the engine does not support the cell.
# `failed`: it raised an exception. `oom`: it ran out of memory. `timeout`: it had no result within its time limit.
# `killed`: a signal ended it. `invalid`: it ran, but its numbers are wrong, as where another device computed.
Status = StrEnum("Status", ["ok", "skipped", "failed", "oom", "timeout", "killed", "invalid"])
# A sweep with one of these exits with status 1.
UNEXPECTED = frozenset({Status.failed, Status.oom, Status.timeout, Status.killed, Status.invalid})
# Cells that `retry=failed` measures again.
RETRIED = frozenset({Status.failed, Status.timeout, Status.killed})

# Why a measurement of blocks ended: the target precision (`Window.width`) is reached, it is too noisy to be reached in
# time, the window's limit is reached, the fixed number of steps is done, the cell's `budget_s` is used up, or its
# process would have run into `timeout_s`: what was measured is a part of what was asked for.
Stop = StrEnum("Stop", ["precise", "noisy", "limit", "fixed", "budget", "timeout"])

Promise = StrEnum("Promise", ["times", "counts", "training", "outputs", "precision", "settings"])

# The parts of a step's wall time. `framework` is the time outside of all others. A device that records a step and then
# runs it as a whole has `trace` (recording) and `execute` (launching and running) instead of `forward`, `backward` and
# `optimizer`.
Phase = StrEnum(
    "Phase", ["data_wait", "copy_in", "forward", "backward", "optimizer", "trace", "execute", "copy_out", "framework"]
)

Provenance = StrEnum("Provenance", ["measured", "estimated"])
# What limits a step's speed: arithmetic, memory traffic, operator launches, waiting for data, or copying it.
Bound = StrEnum("Bound", ["compute", "memory", "launch", "data", "copy"])

# Whether a percentile of latencies is at most its limit. `unknown`: neither is sure at 99 %.
Verdict = StrEnum("Verdict", {"passes": "sure pass", "fails": "sure fail", "unknown": "can't tell"})
