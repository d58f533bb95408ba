"""What the columns of cells.csv mean: the page docs/columns.md is made from this."""

from typing import NamedTuple

from accelbench.schema.cell import Cell
from accelbench.schema.setting import declared
from accelbench.schema.vocab import Phase
from accelbench.stats.order_statistics import NUM_SAMPLES_FOR


class About(NamedTuple):
    """What a column holds, and when it has no value, beside cells that did not run or whose numbers are not published.

    The meaning has the unit where the name does not say it; where `empty` is empty, there always is a value.
    """

    meaning: str
    empty: str = ""


_FIT = "protocols other than `fit`"
_FEW = f"fewer than {NUM_SAMPLES_FOR[50]} blocks, or whole epochs"
_EPOCHS = "whole epochs, whose steps are not waited for"
_NO_GPU = "no NVIDIA GPU, or a counter that the user may not read"
_NO_BREAKDOWN = "the breakdown was off (`breakdown_s=0`), or the phase does not exist for this engine and mode"
_SYSTEM = "the measurement was shorter than the sampler's interval"


def _percentile(percent: int) -> dict[str, About]:
    what = "median of the single steps" if percent == 50 else f"{percent} % of the single steps took at most this long"
    steps = f"fewer than {NUM_SAMPLES_FOR[percent]} steps were waited for one by one"
    return {
        f"latency_p{percent}_ms": About(what, steps),
        f"latency_p{percent}_ms_low": About("lower end of its 95 % interval", steps),
        f"latency_p{percent}_ms_high": About("upper end of its 95 % interval", steps),
    }


SETTINGS = {
    "suite": About("the suite of params.yaml; `adhoc` for the command line"),
    "mode": About("`train` or `infer`"),
    "engine": About("what ran the network"),
    "model": About("the network's name"),
    "arguments": About("arguments of the network, of its batches and its data", "it has none"),
    "data": About("the data set"),
    "device": About("the device that was asked for"),
    **{each.column: About(each.said.column, each.said.empty) for each in declared(Cell) if each.said.column},
}
OUTCOME = {
    "status": About("`ok`, `skipped`, `failed`, `oom`, `timeout`, `killed` or `invalid`", "the cell has not run"),
    "reason": About("why it is not ok", "it is"),
    "cell_id": About("a digest of the settings"),
    "cell": About("equal for the processes of one cell: a digest as identity, but for repeat and seed"),
    "identity": About("a digest of settings, data, machine, versions and measuring code"),
    "started_at": About("when its process started, UTC", "the cell has not run"),
    "wall_s": About("seconds of the whole process, checks included", "the cell has not run"),
    "node": About("the node of a cluster", "it ran on a machine alone"),
    "data_source": About("where the data come from"),
    "stand_in": About("whether a stand-in was measured instead of the data set"),
    "disturbed": About("what other load took while it ran, so that its numbers are not published", "nothing did"),
    "warnings": About("what a reader should know before trusting the numbers; several are separated by `; `", "none"),
}
SPEED = {
    "samples_per_s": About("the cell's speed: of its processes, each the median of its blocks of steps, or epochs"),
    "samples_per_s_low": About("lower end of its 95 % interval", _FEW),
    "samples_per_s_high": About("upper end of its 95 % interval", _FEW),
    "num_processes": About("processes that the speed is of: repeats and seeds", "no process is ok"),
    "tokens_per_s": About("samples_per_s times the tokens of a sample", "`model.tokens` names no function"),
    **_percentile(50),
    **_percentile(90),
    **_percentile(99),
    "launch_p50_ms": About("median time until a step was launched, before it was waited for", _EPOCHS),
    "data_wait_ms": About("median wait for the next batch, in single steps", _EPOCHS),
    "copy_in_ms": About("median time to copy a batch to the device", "the device shares the host's memory"),
    "compute_ms": About("median step without waiting for data and copying", _EPOCHS),
    "copy_out_ms": About("median time to copy the output to the host", "the device shares the host's memory"),
    "data_wait_share": About("share of the step that waits for data", _EPOCHS),
    "num_blocks": About("blocks from which samples_per_s comes", "whole epochs"),
    "num_steps": About("steps in these blocks", "whole epochs"),
    "num_outliers": About("single steps far above the median (by the median absolute deviation)", _EPOCHS),
    "stopped": About("why the blocks ended: `precise`, `noisy`, `limit` or `fixed`", "whole epochs"),
    "num_warmup_steps": About("steps before anything counted"),
    "settled": About("whether the warm-up became steady", "protocols other than `window`"),
    "time_s": About("training for `epochs`, or inference over the test set", "no data set whose size gives a time"),
    "time_provenance": About("whether time_s was measured or estimated from the speed", "time_s is empty"),
    "scaling_efficiency": About("samples_per_s over that of one device times their number", "one device"),
}
PREPARATION = {
    "build_s": About("seconds to build the network"),
    "export_s": About("seconds to export it, once for all cells that load the file", "engines that don't"),
    "quantize_s": About("seconds to quantise it, calibration included, as often", "precisions other than int8"),
    "compile_s": About("seconds of compilations; with AOTInductor as often as the export", "nothing was compiled"),
    "num_compiles": About("compilations, from the first step to the last", "the engine does not count them"),
    "artifact_mb": About("size of the exported and compiled network", "engines that don't export"),
    "num_fallbacks": About("operators that ran on the CPU instead of the device", "the engine can't tell"),
    "first_step_s": About("seconds of the first step, which compiles and allocates"),
    "evaluation_s": About("seconds of the evaluation on the test set", _FIT),
}
WORK = {
    "num_params": About("parameters of the network"),
    "flops_per_sample": About("floating-point or integer operations of matrix products", "they could not be counted"),
    "bytes_per_sample": About("bytes that operators read and write, without caches", "they could not be counted"),
    "num_operators": About("operators of a step", "they could not be counted"),
    "busiest_operators": About("operators that take most of the time", "the engine has no profiler"),
    "flops_per_s": About("flops_per_sample times samples_per_s", "flops_per_sample is empty"),
    "ceiling_flops_per_s": About("the most that the probe reached on the device in this precision", "not probed"),
    "mfu": About("share of the ceiling that was reached", "either is unknown"),
    "bound": About("what limits the step: compute, memory, launch, copy or data", "the work is unknown"),
    "breakdown_disturbance": About("step time with the breakdown's waits over the time without", _NO_BREAKDOWN),
    **{f"breakdown_{phase}_ms": About(f"{phase.replace('_', ' ')}: time in a step", _NO_BREAKDOWN) for phase in Phase},
}
QUALITY = {
    "accuracy": About("share of right answers on the test set", f"{_FIT}, but for trained int8 classifiers"),
    "fp32_accuracy": About("the same of the same weights in fp32", "precisions other than int8, untrained weights"),
    "accuracy_change": About("accuracy minus fp32_accuracy", "fp32_accuracy is empty"),
    "accuracy_change_low": About("lower end of its 95 % interval", "fp32_accuracy is empty"),
    "accuracy_change_high": About("upper end of its 95 % interval", "fp32_accuracy is empty"),
    "train_accuracy": About("share of right answers in the last epoch of training", _FIT),
    "loss": About("training loss of the last step or epoch", "inference"),
    "test_loss": About("loss on the test set", _FIT),
    "output_error": About("norm of the difference from fp32's output over that output's norm", "not compared"),
}
MACHINE = {
    "device_name": About("what the device calls itself"),
    "num_devices": About("devices that ran"),
    "threads": About("CPU threads that ran, read back from the engine", "XLA chooses their number"),
    "batch_size_per_device": About("samples of a batch on each device"),
    "allocator_library": About("the allocator's file and a digest of it", "the default"),
    "cudnn_benchmark": About("whether cuDNN tried its algorithms", "no GPU"),
    "peak_host_mb": About("most resident memory of the processes together", "no /proc"),
    "mean_host_mb": About("their mean resident memory in the steady state", _SYSTEM),
    "peak_device_mb": About("most memory that the framework held on the device", "it has none of its own"),
    "mean_gpu_used_mb": About("memory in use on the GPU, by all processes", _NO_GPU),
    "cpu_utilization_percent": About("processor time over wall time, 100 for one core", _SYSTEM),
    "other_cpu_utilization_percent": About("the same of all other processes, on the cell's cores", _SYSTEM),
    "system_time_share": About("the kernel's part of the processor time", _SYSTEM),
    "page_faults_per_s": About("pages that the kernel mapped", "no /proc"),
    "gpu_utilization_percent": About("share of time in which a kernel ran", _NO_GPU),
    "gpu_power_w": About("mean power", _NO_GPU),
    "gpu_temperature_c": About("mean temperature, degrees Celsius", _NO_GPU),
    "gpu_clock_mhz": About("mean clock of the multiprocessors", _NO_GPU),
    "energy_j_per_sample": About("energy of the devices", "no counter, and no `power_w` in params.yaml"),
    "energy_provenance": About("whether it was measured or estimated from `power_w`", "energy_j_per_sample is empty"),
    "cost_per_million_samples": About("at the prices of params.yaml", "params.yaml has no price for the device"),
}
GROUPS = {
    "Settings": SETTINGS,
    "Outcome": OUTCOME,
    "Speed": SPEED,
    "Before the first step": PREPARATION,
    "Work and ceiling": WORK,
    "Quality": QUALITY,
    "Machine, memory and energy": MACHINE,
}


def markdown() -> str:
    """The page docs/columns.md."""
    lines = [
        "# The columns of cells.csv",
        "",
        "One row per cell; `processes.csv` has a row per process, with the same columns, and `counts`: whether the",
        "speed of its cell is of it, too. The speed of a cell is the median of its processes, of interleaved ones",
        "their geometric mean; its other columns are of the process that is nearest to it.",
        "",
        "A name ends with its unit: `_s`, `_ms`, `_mb`, `_per_s`. An unknown value is empty, never",
        "0; so are all measurements of a cell that did not run or whose numbers are not published (see `status` and",
        "`disturbed`). This page is made from `src/accelbench/report/columns.py` by `python docs/pages.py`.",
        "",
        "![The report's table of all cells, which has these columns](images/all-cells.png)",
    ]
    for title, group in GROUPS.items():
        lines += ["", f"## {title}", "", "| column | meaning | empty for, or if |", "|---|---|---|"]
        lines += [f"| `{name}` | {about.meaning} | {about.empty or '–'} |" for name, about in group.items()]
    return "\n".join(lines) + "\n"
