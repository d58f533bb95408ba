import ast
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

from five_studies import published, raw
from five_studies.published import known_errors, known_errors_table
from studies.test_plausibility import GIGA_MACS

ROOT = Path(__file__).resolve().parents[2]
ERRORS = known_errors()
PAGE = ROOT / "docs" / "how-a-benchmark-lies.md"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error.study}: {error.done[:40]}")
def test_each_names_a_test_that_there_is(error):
    path, _, name = error.test.partition("::")
    functions = {
        node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert name in functions


def test_the_docs_hold_the_same_table():
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    ours = known_errors_table()
    rows = [ours.headings, *([entry.text for entry in row] for row in ours.rows)]
    assert lines == ["| " + " | ".join(row) + " |" for row in rows]


def computed():
    """For each study, the words of its claims that follow from its numbers."""
    runs = {machine: [run for run in raw.runs() if run.machine == machine] for machine in raw.DEVICES}
    gpu, tpu = raw.compared(raw.A100), raw.compared(raw.TPU_V2)
    epyc = {precision: raw.compared(raw.EPYC, precision) for precision in raw.PRECISIONS}
    i7 = raw.compared(raw.I7, "float32", {run.model for run in epyc["float32"]})
    yield (
        "000",
        f"{100 * sum(run.copying_ms for run in tpu) / sum(run.total_ms for run in tpu):.1f} % of the TPU's time",
    )
    yield "000", f"a utilisation of at most {max(run.utilization for run in runs[raw.EPYC])} %"
    yield "000", f"takes {raw.times_as_fast(i7, epyc['float32']):.2f} times as long as the laptop's"
    fp32 = raw.compared(raw.A100, "float32")
    yield (
        "000",
        f"up to {max(2 * GIGA_MACS[run.model] / run.total_ms for run in fp32):.1f} TFLOP/s end to end in float32",
    )
    slow, fast = (fmean(run.total_ms for run in tpu if run.precision == each) for each in ("float32", "float64"))
    yield "000", f"took {fast:.1f} ms an image after float32, which took {slow:.0f}"
    on_cpu = [run for runs in epyc.values() for run in runs]
    sets = [(len({run.precision for run in each}), len({run.model for run in each})) for each in (on_cpu, gpu)]
    yield "000", "takes {} number formats of {} networks on the CPU, and {} of {} on the GPU".format(*sets[0], *sets[1])
    times = [raw.times_as_fast(*each) for each in ((gpu, on_cpu), (tpu, on_cpu), (gpu, tpu))]
    yield "000", f"the same runs give {times[0]:.0f}, {times[1]:.2f} and {times[2]:.0f} end to end"
    by_batch = [[[run for run in each if run.batch_size == size] for each in (gpu, tpu)] for size in (16, 64)]
    ends = [f"{raw.times_as_fast(*each):.0f} times" for each in by_batch]
    yield "000", f"its GPU is {ends[0]} as fast at batch 16, and {ends[1]} at batch 64"
    yield "000", f"no row is above {max(run.utilization for run in runs[raw.A100]):.1f} %"
    peaks = [run.peak_memory for run in runs[raw.A100]]
    assert peaks == sorted(peaks)  # in the order in which its code ran them
    yield "000", f"in {len(peaks) - len(raw.set_a_peak())} of {len(peaks)} rows it is that of an earlier run"
    steps = Counter(run.steps for run in runs[raw.TPU_V2])
    assert (set(steps), steps[32]) == ({10, 32}, 1)
    yield "000", f"10 steps in {steps[10]} rows, 32 in one"
    first, again = runs[raw.A100][:2]
    yield "000", f"took {first.total_ms / again.total_ms:.1f} times as long an image as the same run again"
    most = max(raw.compared(raw.I7, "float32"), key=lambda run: GIGA_MACS[run.model] / run.launch_ms)
    rate = 2e3 * GIGA_MACS[most.model] / most.launch_ms
    yield "000", f"{most.model} at batch {most.batch_size} reaches {rate:.0f}"
    yield "000", f"the CPU's peak that it states, {rate / (2.2 * 6 * 2):.1f}-fold"

    def value(study, *which):
        return published.find(study, *which).value

    models = ("mlp", "cnn", "rnn", "lstm", "autoencoder")
    ratios = [value("001", each, "train_time", "tpu") / value("001", each, "train_time", "cpu") for each in models]
    yield "001", f"TPU training took {min(ratios):.2f} to {max(ratios):.2f} times the CPU's time"
    second = [value("001", "autoencoder", "train_time", device) for device in ("gpu", "tpu")]
    yield "001", f"{second[0]} s are the last of a sum of 20.166, {second[1]} s of 286.863"
    cnn = [value("001", "cnn", "train_time", device) for device in ("cpu", "gpu")]
    yield "001", f"{cnn[0]} s / {cnn[1]} s = {cnn[0] / cnn[1]:.1f}"
    yield "001", "{} s against {} s".format(*(value("001", each, "train_time", "gpu") for each in ("rnn", "lstm")))
    # 472.0 million multiply-adds an image; training takes three times those of inference.
    gpu_s, operations = value("002", "pets_cnn", "train_time", "gpu"), 10 * 2 * 472.0e6 * (3 * 20_000 + 5_000)
    yield "002", f"{gpu_s:.0f} s are {100 * operations / gpu_s / 8.1e12:.0f} % of the T4's 8.1 TFLOP/s"
    cpu_ms = value("003", "scaling_cnn_small", "latency", "cpu")
    yield "003", f'at batch 8 its {1e3 / cpu_ms:.1f} "FPS" are {8e3 / cpu_ms:.0f} images/s'
    eight, sixteen = (
        entry.value for entry in published.load("003") if (entry.metric, entry.device) == ("latency", "gpu")
    )
    yield "003", f"batch 16 gives {2 * eight / sixteen:.2f} times as many images/s"
    accuracies = [value("004", "mlp_cifar10", "train_accuracy", device) / 100 for device in ("cpu", "gpu")]
    yield "004", "prints {} and {}".format(*accuracies)


def test_what_is_claimed_follows_from_the_studies_numbers():
    said = {
        study: " | ".join(f"{e.done} {e.seen}" for e in ERRORS if e.study == study) for study in published.studies()
    }
    assert [words for study, words in computed() if words not in said[study]] == []
