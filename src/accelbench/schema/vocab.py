"""The words that settings and records use. On the command line and in files, a member is written as its name."""

from enum import StrEnum

# The hardware that computes: `gpu` is NVIDIA's. `xla_cpu` is the CPU, driven by torch_xla, the software of TPUs.
Device = StrEnum("Device", ["cpu", "gpu", "tpu", "xla_cpu"])
# Devices that torch_xla drives. If torch_tpu is installed, its driver replaces torch_xla's for `tpu`.
XLA = frozenset({Device.tpu, Device.xla_cpu})
# Devices that share one CPU: several of them divide its cores.
SHARE_ONE_CPU = frozenset({Device.cpu, Device.xla_cpu})

# The framework that runs a cell. `pytorch`: a bare loop; `lightning`: Lightning's Trainer.
Engine = StrEnum("Engine", ["pytorch", "lightning", "keras", "onnxruntime", "openvino", "aotinductor"])
# Engines that compute with PyTorch itself, on any device.
ON_TORCH = frozenset({Engine.pytorch, Engine.lightning})
# Engines that run an exported PyTorch network: inference on the CPU.
EXPORTING = frozenset({Engine.onnxruntime, Engine.openvino, Engine.aotinductor})

# The framework under Keras.
KerasBackend = StrEnum("KerasBackend", ["tensorflow"])

# Where a network is defined: in accelbench, in another library, or in a class of the user. For `custom`, a
# torch.nn.Module, accelbench makes the training step. For `lightning`, a LightningModule, the module's own training
# step, optimisers and hooks run.
Library = StrEnum("Library", ["accelbench", "timm", "torchvision", "transformers", "custom", "lightning"])
USERS_OWN = frozenset({Library.custom, Library.lightning})  # libraries whose networks are the user's code

# A network's initial weights: `none` draws them from the seed, `pretrained` downloads them from the library.
Weights = StrEnum("Weights", ["none", "pretrained"])
# The purpose of a network of the library transformers. It decides the network's head and loss.
Task = StrEnum("Task", ["classification", "masked_lm", "causal_lm"])
# The output of a network: `logits` of shape (batch, classes), or `any` structure of tensors.
ModelOutput = StrEnum("ModelOutput", ["logits", "any"])
# How the batch grows with the devices: `strong` divides one batch among them, `weak` gives each device a whole batch.
Scaling = StrEnum("Scaling", ["strong", "weak"])

# Number formats. `fp16` to `fp64` hold weights and computation. `*_mixed` computes in 16 bits with fp32 weights. `int8`
# multiplies integers where the engine can, and computes the rest in fp32. It is quantised statically, with value ranges
# of the cell's data.
Precision = StrEnum("Precision", ["fp16", "bf16", "fp32", "tf32", "fp64", "fp16_mixed", "bf16_mixed", "int8"])
# Precisions that need a quantised network; only engines that export the network quantise it.
QUANTIZED = frozenset({Precision.int8})
NOT_QUANTIZED = tuple(word for word in Precision if word not in QUANTIZED)

# `generate`: a language model continues prompts, token by token.
Mode = StrEnum("Mode", ["train", "infer", "generate"])
STEP_MODES = (Mode.train, Mode.infer)  # modes of any network

# The memory allocator of a cell's process. `glibc_reuse`: glibc's, set to keep large freed blocks for the next step.
Allocator = StrEnum("Allocator", ["default", "jemalloc", "tcmalloc", "glibc_reuse"])

# What decides how many steps are measured. `window`: bounds in seconds and a target precision (`cell.Window`). `steps`:
# a fixed number. `fit`: whole epochs. `target`: training until a metric is reached. The others serve requests, as the
# scenarios of MLPerf Inference: `server` at an arrival rate, `single_stream` one request after another, `multi_stream`
# several at once, one group after another, `offline` all at once.
Protocol = StrEnum(
    "Protocol", ["window", "steps", "fit", "target", "server", "single_stream", "multi_stream", "offline"]
)
EPOCHS = frozenset({Protocol.fit, Protocol.target})  # protocols that train whole epochs
# When a target is reached. `passage`: at the first evaluation that meets it. `fixed`: at the end of a training whose
# length was fixed in advance.
Definition = StrEnum("Definition", ["passage", "fixed"])
# What a process that trains to a target does, in this order: `start` is from the fork of the process until the engine
# begins; `test` is the last evaluation, on the test set.
Span = StrEnum("Span", ["start", "data", "build", "train", "evaluate", "test"])
SERVING = frozenset({Protocol.server, Protocol.single_stream, Protocol.multi_stream, Protocol.offline})

# How batches are made. From a prepared data set: `array` gathers decoded images, `jpeg` decodes picture files in worker
# processes. From random images: `host` copies ready batches to the device at each step, `device` keeps ready batches on
# the device, `fresh` draws new ones at each step.
Pipeline = StrEnum("Pipeline", ["array", "jpeg", "host", "device", "fresh"])
RANDOM_IMAGE_PIPELINES = (Pipeline.host, Pipeline.device, Pipeline.fresh)
RANDOM = "random"  # the name of the data set without files
OWN_BATCHES = "own batches"  # the data's name in tables for batches of `model.batch` or of `measure`
FOLDER, ARRAYS = "folder", "arrays"  # the data sets of the user's pictures by class, and of the user's arrays
MODULE = "module"  # the data set of a user's LightningDataModule

# How training images are varied on the device: `flip` mirrors at random; `flip_shift` also shifts by up to 1/8.
Augment = StrEnum("Augment", ["none", "flip", "flip_shift"])

# How a cell ended. Every status but `ok` has a reason. `skipped`: the machine or the engine does not support the cell.
# `failed`: it raised an exception. `oom`: it ran out of memory. `timeout`: it had no result within its time limit.
# `killed`: a signal ended it. `invalid`: it ran, but its numbers are wrong, such as when another device computed.
Status = StrEnum("Status", ["ok", "skipped", "failed", "oom", "timeout", "killed", "invalid"])
# If a cell ended with one of these, its sweep exits with status 1.
UNEXPECTED = frozenset({Status.failed, Status.oom, Status.timeout, Status.killed, Status.invalid})
# Cells that `retry=failed` measures again.
RETRIED = frozenset({Status.failed, Status.timeout, Status.killed})

# Why a measurement of blocks ended. `precise`: the target precision (`Window.width`) is reached. `noisy`: more blocks
# would not reach it in time. `limit`: the window's limit is reached. `fixed`: the fixed number of steps is done.
# `budget`: the cell's `budget_s` is used up. `timeout`: `timeout_s` was near, so only a part was measured.
Stop = StrEnum("Stop", ["precise", "noisy", "limit", "fixed", "budget", "timeout"])

# The parts of a step's wall time. `framework` is the time outside of all other parts. Some devices record a step and
# then run it as a whole: their steps have `trace` (recording) and `execute` (launching and running) instead of
# `forward`, `backward` and `optimizer`.
Phase = StrEnum(
    "Phase", ["data_wait", "copy_in", "forward", "backward", "optimizer", "trace", "execute", "copy_out", "framework"]
)

Provenance = StrEnum("Provenance", ["measured", "estimated"])
# What limits a step's speed: arithmetic, memory traffic, operator launches, waiting for data, or copying it.
Bound = StrEnum("Bound", ["compute", "memory", "launch", "data", "copy"])

# Whether a percentile of latencies is at most its limit. `unknown`: neither answer is sure at 99 %.
Verdict = StrEnum("Verdict", {"passes": "sure pass", "fails": "sure fail", "unknown": "can't tell"})
