"""The table of which settings go together. Settings, plans, `accelbench doctor` and docs/settings.md read it.

- NEEDS: which cells read a setting. A cell that does not read a setting has the setting's default, so that the cell's
  id does not depend on it. If no cell of a command reads a setting that the user typed, `settings/compose.py` refuses
  the command with exit status 2.
- MISTAKES: combinations that `settings/to_cell.py` refuses with exit status 2.
- SKIPPED: reasons why `grid/support.py` skips a cell on this machine. All other cells of the sweep run.

If several rules hold, the message is from the first one. A condition consists of terms, separated by blanks. It is true
if all its terms are true. Examples of terms: `engine=keras,pytorch` (one of these values), `device!=cpu`, `devices>1`,
`threads` (true if the setting was given), and `!fused` (true if the fact `fused` is false; with a setting: true if it
was not given). Facts are attributes of `settings.to_cell.RunFacts` or of `grid.support.CellFacts`.
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

TERM = re.compile(r"(!?)([\w.]+)(?:(!=|[<>]=?|=)(\S+))?")
COMPARED = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True)
class Rule:
    """A combination that is refused. In its texts `{name}` stands for the value of a setting or of a fact."""

    when: str  # the condition
    refuse: str  # what is refused, and why
    instead: str = ""  # what can be used instead


@dataclass(frozen=True)
class Needs:
    """Settings that have an effect only together with others."""

    settings: str  # names of settings or of sections, separated by blanks
    needed: str  # condition under which these settings have an effect
    among: str = ""  # condition under which this rule applies


@cache
def terms(condition: str) -> list[tuple[str, str, str]]:
    """Splits a condition into terms. A term is (name, sign, values). If it has no values, the sign is "" or "!"."""
    parts = []
    for no, name, sign, values in TERM.findall(condition):
        parts.append((name, sign or no, values))
    return parts


def text_of(value: object) -> str:
    """A value as the user writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


class Asked:
    """Looks up the settings of a request by the names that a user writes. Subclasses add facts as attributes."""

    places: ClassVar[Mapping[str, str]] = {}  # name -> its path in `whole`, if the path differs from the name

    def __init__(self, whole: Any) -> None:
        self.whole = whole

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name) if hasattr(type(self), name) else self._place(name)[1]

    def _place(self, name: str) -> tuple[Any, Any]:
        """Returns the section of a setting, and the setting's value. The value is None if there is no such section."""
        section = None
        value = self.whole
        for part in self.places.get(name, name).split("."):
            section = value
            value = getattr(section, part, None)
        return section, value

    def is_given(self, name: str) -> bool:
        """Returns whether a setting or section differs from its default. For a fact, returns whether it is true."""
        if hasattr(type(self), name):
            return bool(getattr(self, name))
        section, value = self._place(name)
        default = getattr(type(section), name.rpartition(".")[2], None)
        value = tuple(value) if isinstance(value, list) else value  # OmegaConf's
        return value not in (default, None, "", {}, ())

    def holds(self, condition: str) -> bool:
        """Whether all terms of a condition hold."""
        return all(self._holds(*term) for term in terms(condition))

    def _holds(self, name: str, sign: str, values: str) -> bool:
        if sign in ("", "!"):
            return self.is_given(name) == (sign == "")
        value = self[name]
        if sign in COMPARED:
            limit = float(values) if values[0].isdecimal() else self[values]
            return value is not None and bool(COMPARED[sign](value, limit))
        words = value if isinstance(value, list) else [text_of(value)]
        return set(words).isdisjoint(values.split(",")) == (sign == "!=")

    def refusals(self, rules: Iterable[Rule]) -> Iterator[str]:
        """Yields a sentence for each rule that refuses these settings."""
        for rule in rules:
            if self.holds(rule.when):
                text = f"{rule.refuse}: use {rule.instead}" if rule.instead else rule.refuse
                yield re.sub(r"\{([\w.]+)\}", lambda match: text_of(self[match[1]]), text)

    def unread(self, rules: Iterable[Needs]) -> Iterator[tuple[str, str]]:
        """Yields each setting or section that has no effect, and a term that must be true for it to have an effect."""
        for rule in rules:
            lacking = [term for term in rule.needed.split() if not self.holds(term)]
            if lacking and self.holds(rule.among):
                yield from ((name, lacking[0]) for name in rule.settings.split())

    def useless(self, rules: Iterable[Needs], typed: Mapping[str, str]) -> dict[str, str]:
        """Returns a sentence for each typed setting that has no effect. `typed` maps its name to the typed word."""
        sentences: dict[str, str] = {}
        for setting, term in self.unread(rules):
            for name, word in typed.items():
                if f"{name}.".startswith(f"{setting}."):
                    sentences.setdefault(name, f"{word}: has no effect: it needs {re.sub('^!', 'no ', term)}")
        return sentences


SERVING = "protocol=server,single_stream,multi_stream,offline"
NOT_SERVING = SERVING.replace("=", "!=")
ON_TORCH = "engine=pytorch,lightning"
EXPORTED = "engine=onnxruntime,openvino,aotinductor"
FP16_ADAM = "precision=fp16 mode=train model.optimizer=adam model!=lightning"
UNDERFLOW = "Adam's epsilon underflows in fp16 and the weights turn non-finite"

NEEDS = (
    Needs("model.target model.factory model.constant model.samples", "model=custom,lightning"),
    Needs(
        "model.output model.batch model.collate model.inputs model.loss model.metric model.tokens",
        "model=custom",
    ),
    Needs("model.task", "model=transformers"),
    Needs("model.batch_args", "model=custom,transformers"),
    Needs(
        "model.batch_args model.collate model.inputs model.tokens model.samples",
        "model.batch",
        "model=custom",
    ),
    # A LightningModule decides these itself.
    Needs("model.optimizer model.learning_rate model.weights", "model!=lightning"),
    Needs("trainer", "model=lightning"),
    Needs("save_weights", "mode=train protocol=fit"),
    Needs("data.target data.args", "data=module"),
    Needs("data.args", "data.target"),
    Needs("data.path", "data=folder,arrays"),
    Needs("data.image_size", "data=folder"),
    # A DataModule makes the batches.
    Needs("data.pipeline data.augment data.train_images data.pinned", "data!=module"),
    Needs("data.train_images", "data!=random"),
    Needs("engine.backend engine.jit_compile engine.steps_per_execution engine.tpu", "engine=keras"),
    Needs("engine.xla_processes", ON_TORCH),
    Needs("server", SERVING),
    Needs("target model.metric", "protocol=target"),
    Needs("generate", "mode=generate"),
    Needs("executor.slurm", "executor=slurm"),
    Needs("executor.ray", "executor=ray"),
    Needs("data.augment data.train_images trainer", "mode!=infer"),
    Needs("model.batch_args", "mode!=generate"),
    Needs("engine.xla_processes", "devices>1 device=tpu,xla_cpu"),
    Needs("engine.tpu", "device=tpu"),
    Needs("warmup steps", "protocol=steps"),
    Needs("window", "protocol=window"),
    Needs("breakdown_s budget_s", "protocol=window,steps"),
    Needs("server.rate server.latency_ms server.percentile", "protocol=server"),
    Needs("server.max_delay_ms", "protocol=server,multi_stream"),
    Needs("server.workers", "protocol=server,multi_stream,offline"),
    Needs("target.every target.every_steps", "target.definition=passage"),
    Needs("model.collate", SERVING),
    Needs("data.num_workers", "data.pipeline=jpeg"),
    Needs("data.pinned", f"device=gpu {ON_TORCH} data.pipeline!=device {NOT_SERVING}"),
    Needs("model.input_shape model.num_classes", "data=random !model.batch model!=transformers"),
)

# One line for each rule.
# fmt: off
MISTAKES = (
    Rule("data=random data.pipeline=array,jpeg", "data.pipeline={data.pipeline}: not for data=random", "host, device or fresh"),
    Rule("data!=random data.pipeline=host,device,fresh", "data.pipeline={data.pipeline}: not for data={data}", "array or jpeg"),
    Rule("data=random data.augment", "data.augment={data.augment}: random images are not varied", "data.augment=none"),
    Rule("executor=local threads>cores", "threads={threads}: should be at most {cores}"),
    Rule("executor!=local python", "python={python}: this environment exists only on this machine", "executor=local"),
    Rule("executor=slurm !executor.slurm.nodes", "executor.name=slurm: executor.slurm.nodes is missing", "executor=slurm, which has defaults"),
    Rule("executor=ray !executor.ray.nodes", "executor.name=ray: executor.ray.nodes is missing", "executor=ray, which has defaults"),
    Rule("model.library=accelbench model!=mlp,cnn,rnn,lstm,autoencoder,pets_cnn,scaling_cnn", "model.name={model.name}: accelbench has no network of this name", "model=torchvision, timm or transformers with it"),
    # The user's own network and data
    Rule("model=custom,lightning !model.target", "model.target: it is missing. Give the dotted path of your class, such as my_package.nets.MyNet"),
    Rule("model.batch data!=random", "model.batch={model.batch}: your function makes the batches, so data={data} would not be used", "data=random"),
    Rule("model.batch mode=train !model.loss", "mode=train: model.batch={model.batch} needs model.loss, the dotted path of a function (output, batch) -> scalar", "it, or mode=infer"),
    Rule("model=transformers data!=random", "data={data}: networks of transformers run on random token ids", "data=random"),
    Rule("model=transformers !model.task", "model.task: it is missing. Choose from: classification, masked_lm, causal_lm."),
    Rule("data=module model!=lightning", "data=module: only a LightningModule reads a DataModule", "model=lightning"),
    Rule("data!=module model=lightning", "model=lightning: a LightningModule reads a DataModule", "data=module"),
    Rule("data=folder !data.path", "data.path: it is missing. data=folder needs the path of a folder that has a folder of pictures for each class"),
    Rule("data=arrays !data.path", "data.path: it is missing. data=arrays needs the path of an .npz file"),
    Rule("optimizer.scale mode!=train", "optimizer.scale={optimizer.scale}: mode={mode} has no learning rate", "optimizer.scale=none"),
    Rule("optimizer.scale model=lightning", "optimizer.scale={optimizer.scale}: a LightningModule has its own learning rate", "optimizer.scale=none"),
    # Requests
    Rule(f"{SERVING} mode!=infer", "mode={mode}: protocol={protocol} serves requests", "mode=infer"),
    Rule(f"{SERVING} server.workers>shared_threads", "server.workers={server.workers}: workers share the threads", "at most {shared_threads}"),
    Rule(f"{SERVING} timeout_s<enough_s", "timeout_s={timeout_s}: too short for server.duration_s={server.duration_s}", "timeout_s={enough_s}"),
    Rule("protocol=server num_requests<least_requests", "server.percentile={server.percentile}: needs {least_requests} requests, but server.rate={server.rate} makes {num_requests} in server.duration_s={server.duration_s}", "server.duration_s={long_s}"),
    # Targets
    Rule("protocol=target mode!=train", "mode={mode}: protocol=target trains", "mode=train"),
    Rule("protocol=target data=random", "data=random: a network can't learn from random data", "a data set for protocol=target"),
    Rule("protocol=target target.metric=metric model!=lightning !model.metric", "target.metric=metric: needs model.metric, the dotted path of your own function"),
    Rule("protocol=target target.metric!=accuracy,loss,metric model!=lightning", "target.metric={target.metric}: unknown target.metric. Choose from: accuracy, loss, metric."),
    Rule("protocol=target target.metric=accuracy !target.accuracy", "protocol=target: needs target.accuracy, the accuracy to reach"),
    Rule("protocol=target target.metric!=accuracy !target.value", "protocol=target: needs target.value, the value of {target.metric} to reach"),
    Rule("protocol=target target.metric=accuracy target.value", "target.value: has no effect with target.metric=accuracy", "target.accuracy"),
    Rule("protocol=target target.metric!=accuracy target.accuracy", "target.accuracy: has no effect with target.metric={target.metric}", "target.value"),
    Rule("protocol=target target.validation>=1", "target.validation={target.validation}: leaves nothing to train on", "less than 1"),
    # Generation
    Rule("mode=generate model!=transformers", "mode=generate: model={model} is no causal language model", "model=transformers"),
    Rule("mode=generate model.task!=causal_lm", "model.task={model.task}: mode=generate continues texts", "model.task=causal_lm"),
    Rule("mode=generate protocol!=window,steps", "protocol={protocol}: mode=generate repeats generations", "protocol=window or steps"),
)

SKIPPED = (
    Rule("python_problem", "python={python}: {python_problem}"),
    Rule("missing=torch", "engine={engine}: torch is missing in this environment", "one that has it, or engine=keras"),
    Rule("missing missing!=torch_xla", "engine={engine}: {missing} is not installed: {install}"),
    Rule("precision=int8 engine!=onnxruntime,openvino", "engine={engine} does not quantise networks", "engine=onnxruntime or engine=openvino"),
    # Keras
    Rule("engine=keras device=xla_cpu", "device=xla_cpu: is for torch_xla", "device=cpu engine.jit_compile=true; XLA then compiles for the CPU"),
    Rule("engine=keras model.library!=accelbench", "engine=keras: has only accelbench's own networks, not those of {model.library}", "engine=pytorch"),
    Rule("engine=keras model.weights!=none,pretrained", "model.weights: cells of Keras start from random weights", "engine=pytorch, or model.weights=none"),
    Rule("engine=keras save_weights", "save_weights=true: cells of Keras keep no weights", "engine=pytorch, or save_weights=false"),
    Rule("engine=keras option", "{option}=true: Keras has no such option", "engine=pytorch, or engine.jit_compile"),
    Rule("engine=keras data.pipeline=jpeg", "data.pipeline=jpeg: cells of Keras read decoded arrays", "data.pipeline=array, or engine=pytorch"),
    Rule("engine=keras data.augment", "data.augment={data.augment}: cells of Keras do not vary images", "data.augment=none, or engine=pytorch"),
    Rule("engine.steps_per_execution>1 data.pipeline=device mode=train", "engine.steps_per_execution={engine.steps_per_execution}: in training, TensorFlow fetches each batch itself", "data.pipeline=host, or engine.steps_per_execution=1"),
    Rule("engine.steps_per_execution>1 devices>1", "engine.steps_per_execution={engine.steps_per_execution}: TensorFlow runs several steps per call only on one device", "1"),
    # Exported networks
    Rule(f"{EXPORTED} device!=cpu", "engine={engine} runs on the CPU here", "device=cpu, or engine=pytorch"),
    Rule(f"{EXPORTED} mode=generate", "engine={engine}: an exported network keeps no key-value cache: for mode=generate use engine=pytorch"),
    Rule(f"{EXPORTED} mode!=infer", "engine={engine} runs inference", "mode=infer, or engine=pytorch"),
    Rule(f"{EXPORTED} devices>1", "engine={engine} runs on one device", "devices=1, or engine=pytorch"),
    Rule("engine=onnxruntime precision!=fp32,int8", "engine={engine} has no {precision} on the CPU", "fp32 or int8"),
    Rule("engine=openvino precision!=fp32,bf16,fp16,int8", "engine={engine} has no {precision} on the CPU", "fp32 or bf16 or fp16 or int8"),
    Rule("engine=aotinductor precision!=fp32,bf16,fp16,fp64", "engine={engine} has no {precision} on the CPU", "fp32 or bf16 or fp16 or fp64"),
    Rule("engine=openvino precision=bf16 instruction_sets!=avx512_bf16,amx_bf16", "OpenVINO computes in bf16 with avx512_bf16 or amx_bf16, which this CPU lacks", "fp32"),
    Rule("engine=openvino precision=fp16 instruction_sets!=avx512_fp16,amx_fp16", "OpenVINO computes in fp16 with avx512_fp16 or amx_fp16, which this CPU lacks", "fp32"),
    Rule("engine=onnxruntime,openvino option", "{option}=true: {engine} chooses layouts and constants itself", "{option}=false"),
    Rule("engine=aotinductor compile", "compile=true: aotinductor compiles the network itself", "compile=false"),
    Rule("engine=aotinductor cuda_graphs", "cuda_graphs=true: aotinductor compiles the network itself", "cuda_graphs=false"),
    Rule(f"{EXPORTED} model=lightning", "model=lightning: Lightning runs its modules", "engine=lightning, or model=custom for {engine}"),
    # The machine
    Rule("allocator device!=cpu,xla_cpu", "allocator={allocator}: sets the host's allocator, and a {device} has its own memory", "allocator=default"),
    Rule("allocator_problem", "{allocator_problem}"),
    Rule("absent", "{absent}"),
    Rule("devices>num_available", "devices={devices}: this machine has {num_available}"),
    Rule("devices>1 device!=cpu,gpu !fused", "devices={devices}: not tested on {device}", "devices=1"),
    Rule("devices>1 cuda_graphs mode=train", "cuda_graphs=true: gradients are averaged over devices={devices}, outside of any CUDA graph", "devices=1"),
    Rule("missing=torch_xla", "device={device}: torch_xla is not installed: {install}, or use engine=keras"),
    # Lightning
    Rule("engine=pytorch model=lightning", "model=lightning: its training_step runs in Lightning's loop", "engine=lightning"),
    Rule(f"engine=lightning model!=lightning {SERVING}", "engine=lightning: its loop serves no requests: for {protocol} use engine=pytorch"),
    Rule("engine=lightning model!=lightning mode=generate", "engine=lightning: its loop generates no tokens: for mode=generate use engine=pytorch"),
    Rule("engine=lightning model!=lightning device=tpu,xla_cpu devices>1", "engine=lightning: its loop runs on one {device} here", "devices=1, or engine=pytorch"),
    Rule("model=lightning device!=cpu,gpu", "model=lightning: its loop is not measured on {device}", "device=cpu or device=gpu"),
    Rule("model=lightning devices>1", "model=lightning: its loop is measured on one device", "devices=1"),
    Rule("model=lightning protocol=fit", "model=lightning: protocol=fit evaluates on accelbench's own test sets", "protocol=target or window"),
    Rule("model=lightning option", "{option}=true: has no effect on the network of a LightningModule", "{option}=false"),
    # The network and its data
    Rule("unfit", "{unfit}"),
    Rule("model.output=any mode=train !model.loss", "model.output=any: the built-in loss needs logits", "model.loss, mode=infer or model.output=logits"),
    Rule("model.loss protocol=fit", "model.loss: protocol=fit can only evaluate with the built-in loss", "protocol=window, steps or target"),
    Rule("uneven", "batch_size={batch_size}: not divisible by devices={devices}: choose a multiple"),
    Rule("protocol=target target.metric=accuracy model=autoencoder", "target.metric=accuracy: model={model} does not classify", "target.metric=loss"),
    Rule("protocol=target target.metric=accuracy model.output=any model!=lightning", "target.metric=accuracy: model={model.name} does not classify", "target.metric=loss"),
    # Precisions
    Rule("precision=tf32 device!=gpu", "tf32 needs an NVIDIA GPU, not {device}", "fp32"),
    Rule("engine.xla_processes device=xla_cpu", "engine.xla_processes=true: PJRT can't connect processes on CPUs (pytorch/xla#5342)", "false"),
    Rule(f"precision=fp16_mixed mode=train {ON_TORCH} fused", "fp16_mixed: training needs loss scaling, which torch_xla lacks", "bf16_mixed"),
    Rule("precision=bf16,tf32 device=gpu capability<8.0", "{precision} needs compute capability 8.0 or newer", "fp32"),
    Rule("precision=bf16_mixed device=gpu capability<8.0", "{precision} needs compute capability 8.0 or newer", "fp16_mixed"),
    # Under fp16 autocast torch calls oneDNN's LSTM, which has fp16 for the forward pass only, with AVX512-FP16.
    # Measured with torch 2.9.0 and ONEDNN_MAX_CPU_ISA at AVX2, AVX512_CORE_BF16 and AVX512_CORE_FP16.
    Rule(f"model=lstm precision=fp16_mixed device=cpu {ON_TORCH} mode!=infer", "oneDNN has no fp16 LSTM for mode={mode} on this CPU", "bf16_mixed"),
    Rule(f"model=lstm precision=fp16_mixed device=cpu {ON_TORCH} instruction_sets!=avx512_fp16", "oneDNN has no fp16 LSTM for mode={mode} on this CPU", "bf16_mixed"),
    # PyTorch's default epsilon, 1e-8, is below the smallest fp16 number, 6e-8, and so are the squared gradients.
    Rule(f"{FP16_ADAM} device=tpu,xla_cpu", UNDERFLOW, "bf16_mixed"),
    Rule(f"{FP16_ADAM} device=cpu model=lstm", UNDERFLOW, "bf16_mixed"),
    Rule(FP16_ADAM, UNDERFLOW, "fp16_mixed"),
    # Options
    Rule("freeze mode=train", "freeze=true: makes the weights constant, but training changes them", "mode=infer"),
    Rule("compile fused", "compile=true: XLA compiles every network anyway", "compile=false"),
    Rule("channels_last fused", "channels_last=true: XLA chooses the memory layout itself", "channels_last=false"),
    Rule("cuda_graphs device!=gpu", "cuda_graphs=true: only NVIDIA GPUs have CUDA graphs, not {device}", "cuda_graphs=false"),
    Rule("flush_denormals engine=keras", "flush_denormals=true: Keras has no such option", "engine=pytorch, or flush_denormals=false"),
    Rule("flush_denormals fused", "flush_denormals=true: XLA flushes denormal numbers by itself", "flush_denormals=false"),
    Rule("flush_denormals device!=cpu", "flush_denormals=true: denormal numbers do not slow down a {device}", "flush_denormals=false"),
    Rule("compile device=gpu capability<7.0", "compile=true needs compute capability 7.0 or newer", "compile=false"),
    Rule("compile no_compiler", "compile=true needs a compiler, and {no_compiler} is not found: install one (on Debian, g++)"),
    Rule("engine=aotinductor no_compiler", "engine=aotinductor needs a compiler, and {no_compiler} is not found: install one (on Debian, g++)"),
    # Requests
    Rule(f"{SERVING} devices>1", "devices={devices}: protocol={protocol} serves requests on one device", "devices=1"),
    Rule(f"{SERVING} model=lightning", "model=lightning: its loop serves no requests", "model=custom for protocol={protocol}"),
    Rule(f"{SERVING} engine.steps_per_execution>1", "engine.steps_per_execution={engine.steps_per_execution}: protocol={protocol} computes one batch per call", "1"),
    Rule(f"{SERVING} data.pipeline=device", "data.pipeline=device: requests of protocol={protocol} come from host memory", "data.pipeline=host"),
    Rule(f"{SERVING} server.workers>1 compile", "server.workers={server.workers}: compile=true runs one instance of the network", "server.workers=1"),
    Rule(f"{SERVING} server.workers>1 cuda_graphs", "server.workers={server.workers}: cuda_graphs=true runs one instance of the network", "server.workers=1"),
    Rule(f"{SERVING} server.workers>1 device!=cpu,gpu", "server.workers={server.workers}: device={device} runs one instance of the network", "server.workers=1"),
    Rule(f"{SERVING} server.workers>1 engine=keras", "server.workers={server.workers}: engine=keras runs one instance of the network", "server.workers=1"),
    # Generation
    Rule("mode=generate fused", "mode=generate: XLA would compile again for each length of the key-value cache: on {device} use mode=infer"),
    Rule("mode=generate devices>1", "devices={devices}: mode=generate runs on one device", "devices=1"),
    Rule("mode=generate cuda_graphs", "cuda_graphs=true: not tested with a key-value cache: for mode=generate use cuda_graphs=false"),
    Rule("mode=generate freeze", "freeze=true: not tested with a key-value cache: for mode=generate use freeze=false"),
)

# fmt: on
