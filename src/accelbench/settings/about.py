"""What the settings mean: the page docs/settings.md is made from this and from the schema."""

import types
from collections.abc import Iterator
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import Field, fields, is_dataclass
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import MISSING

from accelbench.settings.config import GROUPS, RunConfig

# By their names on the command line.
MEANINGS = {
    "mode": "train or infer",
    "precision": "what the network computes in",
    "batch_size": "samples of a batch; unless given, the model's own",
    "protocol": "window: steps for some seconds; steps: a fixed number; fit: whole epochs",
    "epochs": "of protocol=fit; the other protocols only estimate the time of this many; unless given, the model's own",
    "warmup": "steps before those of protocol=steps",
    "steps": "of protocol=steps",
    "devices": "how many devices compute the cell",
    "scaling": "of several devices: strong shares the batch, weak gives each a batch of that size",
    "threads": "CPU threads; unless given, all cores",
    "seed": "of weights, data order and random inputs",
    "repeat": "the number of the process of the cell",
    "repeats": "fresh processes of each cell",
    "timeout_s": "seconds after which a cell is ended; its record says so",
    "channels_last": "the memory layout of images, channels last",
    "compile": "torch.compile",
    "freeze": "fold the weights into the network as constants (inference)",
    "cuda_graphs": "replay a step as a CUDA graph",
    "flush_denormals": "take numbers near 0 as 0",
    "allocator": "the memory allocator of the process",
    "breakdown_s": "seconds for the phases of a step; 0: none",
    "save_weights": "protocol=fit: keep the trained weights beside the record",
    "profile": "which values of {quick: ..., full: ...} in params.yaml",
    "out": "the folder of the records, under runs/; an existing one is resumed",
    "retry": "failed: run failed, timed out and killed cells of out= again",
    "verbose": "show what the cells' libraries print; -v does the same",
    "engine.xla_processes": "lightning on a TPU: a process for each core",
    "engine.backend": "keras: tensorflow or jax",
    "engine.jit_compile": "keras: compile with XLA",
    "engine.steps_per_execution": "keras: steps in one call of the compiled function",
    "engine.tpu": "keras: the TPU's name, local for this machine's",
    "model.name": "the network; of timm, torchvision and transformers the library's name for it",
    "model.library": "where the network comes from; model= chooses it",
    "model.network": "the accelbench network behind the name",
    "model.target": "your own class, such as my_package.nets.MyNet",
    "model.factory": "whether target is any callable that makes a network",
    "model.weights": "none, pretrained, or the path of a file (.safetensors; .pth with torch 2.10)",
    "model.task": "transformers: the head of the network",
    "model.batch": "your own function that makes a batch: make_batch(batch_size, **batch_args)",
    "model.batch_args": "its arguments; model.batch_args.seq_len=128,512 is an axis",
    "model.inputs": "the keys of the batch that the network gets",
    "model.loss": "your own loss: loss(output, batch)",
    "model.samples": "your own function that counts the samples of a batch",
    "model.tokens": "your own function that counts the tokens of a batch",
    "model.optimizer": "adam, adamw, sgd, or your own function of the parameters",
    "model.learning_rate": "of these three optimisers",
    "model.batch_size": "the batch that batch_size takes unless it is given",
    "model.epochs": "the epochs that epochs takes unless it is given",
    "model.constant": "whether its output may be the same for all inputs",
    "model.output": "logits, or any for a network without classes",
    "model.input_shape": "of one sample, where no data set tells",
    "model.num_classes": "of random labels",
    "model.args": "arguments of the network; model.args.width=64,128 is an axis",
    "data.pipeline": "how batches reach the step",
    "data.num_workers": "processes that decode pictures (pipeline=jpeg)",
    "data.augment": "how training images are varied on the device",
    "data.target": "your own LightningDataModule",
    "data.args": "its arguments",
    "data.path": "folder, arrays: where your pictures or arrays are",
    "data.image_size": "folder: height and width that pictures are scaled to",
    "data.root": "the folder of prepared data sets",
    "suite.title": "its title in the report",
    "suite.study": "the study that it repeats",
    "trainer.accumulate_grad_batches": "a LightningModule's batches for each optimiser step",
    "trainer.gradient_clip_val": "the norm at which its gradients are cut",
    "executor.slurm.partition": "Slurm's partition; this and the next three as submitit and sbatch name them",
    "executor.slurm.constraint": "the features of a node, such as h100",
    "executor.slurm.account": "the account that pays",
    "executor.slurm.qos": "the quality of service",
    "executor.slurm.time": "minutes of a job; 240 with executor=slurm",
    "executor.slurm.nodes": (
        "jobs, each alone on a node, for each group of cells that need the same hardware; 1 with executor=slurm"
    ),
    "executor.slurm.setup": 'lines of the job\'s script before accelbench starts, such as ["module load cuda"]',
    "executor.slurm.additional_parameters": "any other option of sbatch, such as {reservation: mine}",
    "executor.ray.address": "auto, host:port, or local for a new Ray on this machine; auto with executor=ray",
    "executor.ray.nodes": (
        "tasks, each alone on a node, for each group of cells that need the same hardware; 1 with executor=ray"
    ),
    "executor.ray.num_retries": "how often a task is started again after its node was lost; 3 with executor=ray",
    "window.warmup_steps": "steps before anything counts, at least",
    "window.warmup_s": "seconds before anything counts, at least",
    "window.measure_s": "seconds of blocks, at least; up to three times as many if the speed varies",
    "window.width": "blocks end when the interval is this narrow, as a share of the speed",
    "window.block_s": "seconds of a block, at least",
    "window.latency_s": "seconds of single steps, at most",
    "window.latency_steps": "single steps, at most",
}


# Settings whose values are the names of files in conf/.
CHOOSES = {
    "engine": "what runs the network",
    "device": "the device",
    "model": "the network, or the library that has it",
    "data": "the data set",
    "suite": "a suite of params.yaml",
    "tracking": "where records are delivered",
    "executor": "where cells are measured: on this machine, or in jobs of a cluster",
}


MAX_WORDS = 100  # characters of a list of choices


def markdown(choices: dict[str, list[str]], defaults: dict[str, Any]) -> str:
    """The page docs/settings.md.

    Args:
        choices: the files of each group of conf/.
        defaults: of conf/config.yaml, for settings that have none in the schema.
    """
    lines = [
        "# The settings",
        "",
        "`accelbench name=value` sets one, `accelbench -m name=value,value` sweeps it. `accelbench --cfg job` prints",
        "the values that a run would have. This page is made from the code by `python docs/pages.py`.",
        "",
        "![A word that is not a setting's is refused, with the words that are](images/wrong-word.png)",
        "",
        "| setting | default | values | meaning |",
        "|---|---|---|---|",
    ]
    for name, kind, default in settings():
        default = defaults.get(name) if default is None else default
        group = name.removesuffix(".name")
        if name.endswith(".name") and group in choices:
            words = ", ".join(choices[group])
            words = words if len(words) <= MAX_WORDS else f"a file's name in conf/{group}/"
            lines.append(f"| `{group}` | {_shown(default)} | {words} | {CHOOSES[group]} |")
        if name != f"{group}.name" or group == "model":
            lines.append(f"| `{name}` | {_shown(default)} | {_values(kind)} | {MEANINGS[name]} |")
    return "\n".join(lines) + "\n"


def settings(kind: type = RunConfig, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yields each setting's dotted name, its type and its default."""
    types_of = get_type_hints(kind)
    sections: list[tuple[str, type]] = []
    for each in fields(kind):
        if is_dataclass(types_of[each.name]):
            sections.append((each.name, types_of[each.name]))
        else:
            yield prefix + each.name, types_of[each.name], _default(each)
    for name, section in sorted(sections, key=lambda pair: pair[0] not in GROUPS):
        yield from settings(section, f"{prefix}{name}.")


def _default(each: Field[Any]) -> Any:
    if each.default_factory is not NO_DEFAULT:
        return each.default_factory()
    return None if each.default == MISSING else each.default


def _values(kind: Any) -> str:
    """The words of an enumeration, or what kind of value it is."""
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    names = {bool: "true, false", int: "a whole number", float: "a number", str: "a text"}
    found = []
    for part in parts:
        if isinstance(part, type) and issubclass(part, StrEnum):
            found.append(", ".join(part))
        elif part in names:
            found.append(names[part])
        elif part is not type(None):
            found.append("a list" if get_origin(part) is list else "names with values")
    return " or ".join(found)


def _shown(default: Any) -> str:
    if default is None or default in ({}, [], ""):
        return "–"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
