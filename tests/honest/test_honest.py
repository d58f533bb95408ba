"""What plain PyTorch runs, a cell runs, and accuses it of nothing; and what is an accident, a user hears of.

One line a program. Of each, `make test` runs the mode that `quick` names, and `make test-all` the others.
"""

import os
import re
from dataclasses import replace
from itertools import chain, product
from pkgutil import resolve_name
from typing import Any, NamedTuple

import pytest

import accelbench
from accelbench.judging.row import summarise, warnings_of
from accelbench.judging.verdict import ALLOWED, BUSY
from accelbench.schema.cell import (
    MODULE,
    DataSpec,
    Library,
    Mode,
    ModelOutput,
    ModelSpec,
    Pipeline,
    Precision,
    Protocol,
    Status,
    Stop,
    TrainerSettings,
    Window,
)
from fakes import make_cell, make_record
from marks import slow

SHORT = Window(warmup_steps=2, warmup_s=0.01, measure_s=0.05, block_s=0.01, latency_s=0.03, latency_steps=20)
LATE = replace(SHORT, warmup_steps=400)
# Doubts about times, which are short here, beside other tests.
ABOUT_TIMES = re.compile(
    r"noisy|partial|the clock.s speed|the overall speed|only \d+ blocks?|the CPU|\d+ of \d+ (blocks|steps)|its \d+ blocks|step times|the speed|single steps|other proc"
)


class Row(NamedTuple):  # a class or function of `honest.networks`, or of the module that it names, and how it runs
    target: str
    mode: str  # infer, train; measure and measure_train: by `accelbench.measure`
    precision: Precision
    found: str  # of an accident, a pattern of what is reported; of an honest program, of doubts that are true
    more: dict[str, Any]  # settings


def program(target, found="", modes="infer train", precisions="fp32", quick="", note="", **more):
    rows = []
    for precision, mode in product(precisions.split(), modes.split()):
        words = (target.rpartition(".")[2], more.get("loss"), more.get("batch"), note, mode, precision)
        is_quick = mode == quick and precision == precisions.split()[0]
        row = Row(target, mode, Precision(precision), found, more)
        rows.append((pytest.param if is_quick else slow)(row, id="-".join(filter(None, words))))
    return rows


def honest(target, batch="vectors", true="", **more):
    return program(target, true, batch=batch, **more)


def module(target, found="", modes="train", **more):
    return program(f"modules.{target}", found, modes, **more)


def accident(target, found, modes="infer", **more):
    return program(target if target == "Plain" else f"accidents.{target}", found, modes, **more)


ALL = "infer train measure measure_train"
SAME = "the output is the same for different inputs"
BOTH = "fp32 bf16"
MADE = {"factory": True}
# The speed of a program whose work depends on its inputs is that of the inputs that were fed.
DEPENDS = "depends on (its|the) inputs|of the inputs that were fed|uneven|some steps take much longer"

HONEST = [
    honest("Plain", modes=ALL, precisions="fp32 bf16 fp64 bf16_mixed", quick="infer"),
    honest("Plain", pipeline=Pipeline.fresh, note="fresh"),
    honest("Plain", pipeline=Pipeline.device, note="device"),
    honest("Plain", batch_size=1, note="one sample", precisions=BOTH),
    honest("Plain", "same_vectors"),
    honest("Plain", "labelled", modes="train", loss="classify", optimizer="lbfgs", learning_rate=0.1, note="lbfgs", quick="train"),
    honest("RotaryTable", "sequences", modes=ALL, precisions=BOTH, quick="train"),
    honest("TurnsAnew", "sequences", modes=ALL, precisions="bf16 fp32", quick="infer"),
    honest("ComplexLayers", "signals", modes=ALL, quick="train"),
    honest("WhitensInPlace", modes=ALL, precisions=BOTH, quick="infer"),
    honest("HidesTokens", "ids", modes=ALL, quick="train"),
    honest("PopsWeight", "nested_mapping", loss="classify", quick="infer"),
    honest("Plain", "labelled", modes="train measure_train", loss="pops", quick="measure_train"),
    honest("Boxes", "images", precisions=BOTH, quick="infer"),
    honest("FindsNone", modes="infer measure", precisions=BOTH, quick="infer"),
    honest("CellStates", "sequences", batch_size=4, quick="infer"),
    honest("WholeBatch", modes="infer train measure", quick="infer"),
    honest("Classes", modes="infer measure", precisions=BOTH, quick="infer"),
    honest("Hashes", "ids", modes="infer train measure", precisions=BOTH, quick="infer"),
    honest("Pull", modes=ALL, quick="infer"),
    honest("PullOutside", modes="infer measure", quick="infer"),
    honest("PullByFunction", modes="infer measure", precisions=BOTH, quick="infer"),
    honest("Forbids", "labelled", loss="classify", modes=ALL, precisions=BOTH, quick="train"),
    honest("LateLayers", "images", quick="train"),
    honest("SparseWords", "coo", quick="train"),
    honest("SparseRows", quick="infer"),
    honest("NestedRows", "nested", modes="infer measure", quick="infer"),
    honest("WordVectors", "ids", modes="train", optimizer="torch.optim.SparseAdam", quick="train"),
    honest("SparseBags", "bags", optimizer="torch.optim.Adagrad"),
    honest("BagsOfWords", "bags", modes="infer train measure", precisions=BOTH, quick="infer"),
    honest("Packed", "tokens_in_budget", samples="num_sequences", batch_size=12, quick="train"),
    honest("Masks", "tuple_with_none", modes="infer", quick="infer"),
    honest("scripted", **MADE, quick="train"),
    honest("frozen", modes="infer", **MADE, quick="infer"),
    honest("compiled", **MADE, quick="train"),
    honest("exported", **MADE, quick="infer"),
    honest("EmptyCodebook", modes="infer measure", precisions=BOTH, quick="infer", true=SAME),
    honest("ZeroHead", "labelled", modes="infer train measure", loss="classify", quick="infer", true=SAME),
    # How often it computes depends on the load of the machine: not in `make test`.
    honest("UntilLate", modes="infer train measure", true="the output differs by .* from the output in fp32"),
    honest("OneBuffer", modes="infer measure", precisions=BOTH, quick="infer"),
    honest("Denoises", loss="denoises", quick="train"),
    honest("RunningMean", modes=ALL, quick="infer"),
    honest("GrowingTable", modes="infer train measure", precisions=BOTH, quick="infer"),
    honest("BlendsIn", modes=ALL, precisions=BOTH, quick="infer"),
    honest("BeginsWhite", modes=ALL, precisions=BOTH, quick="train"),
    honest("WindowMean", modes="infer train measure", precisions=BOTH, quick="infer"),
    honest("Calibrates", modes=ALL, precisions=BOTH, quick="infer"),
    honest("Tied", "ids", precisions=BOTH, quick="train"),
    honest("FrozenBody", quick="train"),
    honest("Parametrised", modes=ALL, precisions=BOTH, quick="measure"),
    honest("Experts", precisions=BOTH, quick="train"),
    honest("ExitsEarly", true=DEPENDS, quick="infer"),
    honest("Plain", "labelled", modes="train", loss="separates", optimizer="torch.optim.SGD", learning_rate=0.3, true="all gradients are 0", window=LATE, note="all right", quick="train"),
    honest("Doubles", precisions="fp64 fp32"),
    module("Lit", modes="infer train", quick="infer"),
    module("Lit", trainer=TrainerSettings(accumulate_grad_batches=4), note="accumulates"),
    module("Lit", data_args={"stream": [70]}, note="stream"),
    module("TakesNoWarning", modes="infer train", quick="train"),
    module("Lit", modes="infer", batch_size=1, note="one sample"),
    module("Embeds", modes="infer", batch_size=1, data_args={"tokens": "drawn"}),
    module("Embeds", modes="infer", data_args={"tokens": "the same"}, note="the same"),
    module("Gan", quick="train"),
    module("AccumulatesByHand", quick="train"),
    module("FineTunes"),
    module("TakesOut", modes="infer train", data_args={"mapping": True}, quick="train"),
    module("ScalesInPlace", modes="infer train"),
]  # fmt: skip

STALE = "kept|earlier|differs|not that of|does not depend"
NOTHING = "nothing was trained|no weight changed|did not change"
NO_GRADIENTS = "did not change|no gradient"
ACCIDENTS = [
    accident("HalfInside", "bf16|bfloat16", quick="infer"),
    accident("HalfInBuffer", "bf16|bfloat16", quick="infer"),
    accident("Quantised", "int8|not observed", quick="infer"),
    accident("NumpysThreads", "threads", window=Window(measure_s=0.8, latency_s=0.2)),
    accident("Plain", "finite", modes="train", precisions="fp16", loss="accidents.overflows"),
    accident("IgnoresInput", SAME, quick="infer"),
    accident("KeepsFeatures", STALE, modes="infer measure", precisions="fp32 bf16", quick="infer"),
    accident("KeepsOneSize", STALE, quick="infer"),
    accident("KeepsInBuffer", STALE, quick="infer"),
    accident("KeepsUnseeded", STALE, quick="infer"),
    accident("KeepsClasses", STALE, quick="infer"),
    accident("StaysInTraining", "layers in training mode during inference", quick="infer"),
    accident("Plain", NOTHING, modes="train", optimizer="torch.optim.SGD", learning_rate=1e-30, note="tiny rate"),
    accident("Plain", NOTHING, modes="train", optimizer="accidents.of_another", note="of another", quick="train"),
    accident("Plain", "finite", modes="train", optimizer="torch.optim.SGD", learning_rate=1e30, note="far too fast", quick="train"),
    accident("Detaches", NO_GRADIENTS, modes="train", quick="train"),
    accident("AllFrozen", "empty parameter list", modes="train"),
    accident("StaysInEval", "layers in evaluation mode during training", modes="train", quick="train"),
    accident("Plain", "was called for 8 samples", batch="accidents.too_few"),
    module("NeverBackward", NOTHING, quick="train"),
    module("CropsInTransfer", "most batches have 2 samples", quick="train"),
    module("KeepsPrediction", STALE, "infer", quick="infer"),
]  # fmt: skip


def path(name):
    if name.startswith("torch."):
        return name
    return f"honest.{name}" if "." in name else f"honest.networks.{name}"


def cell_of(row):
    more = dict(row.more)
    spec = {name: more.pop(name) for name in ("factory", "learning_rate") if name in more}
    if row.target.startswith("modules."):
        spec["library"] = Library.lightning
        data = DataSpec(name=MODULE, target=path("modules.Data"), args=more.pop("data_args", {}))
        more.setdefault("trainer", TrainerSettings())
    else:
        spec |= {"library": Library.custom, "output": ModelOutput.any, "optimizer": "adam"}
        own = {name: more.pop(name) for name in ("loss", "samples", "optimizer", "batch") if name in more}
        own = {"batch": "vectors", "loss": "energy"} | own
        used = own if row.mode == Mode.train else own.keys() - {"loss", "optimizer"}
        spec |= {name: path(own[name]) for name in used}
        data = DataSpec(name="random", pipeline=more.pop("pipeline", Pipeline.host))
    model = ModelSpec(name=row.target.rpartition(".")[2], network=path(row.target), **spec)
    settings = {"batch_size": 8, "breakdown_s": 0.0, "window": SHORT, "threads": 1, "mode": Mode(row.mode)}
    return make_cell(model=model, data=data, precision=row.precision, **{**settings, **more})


def run(row, hosts, folder):
    """What a user sees of a program: its status, why it is not `ok`, and doubts about its number."""
    if row.mode.startswith("measure"):
        return run_live(row)
    cell = cell_of(row)
    outcome = hosts.run(cell, folder)
    if outcome.status != Status.ok:
        return outcome.status, f"{outcome.reason}\n{outcome.error or ''}", []
    assert outcome.measurement.precision == row.precision
    machine = {"machine": {"num_threads": os.cpu_count()}, BUSY: ALLOWED}
    record = make_record(cell, measurement=outcome.measurement, system=outcome.system, environment=machine)
    return Status.ok, "", warnings_of(summarise(record))


def run_live(row):
    names = {"batch": "vectors", "loss": "energy"} | row.more
    network, batch, loss = (resolve_name(path(name)) for name in (row.target, names["batch"], names["loss"]))
    asked = {"mode": "train", "loss": loss} if row.mode == "measure_train" else {"mode": "infer"}
    try:
        measured = accelbench.measure(network(), batch(8), precision=row.precision, window=SHORT, **asked)
    except accelbench.InvalidError as error:
        return Status.invalid, str(error), []
    assert measured.precision == row.precision
    return Status.ok, "", measured.warnings


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("row", [*chain(*HONEST)])
def test_what_plain_pytorch_runs_a_cell_runs_and_accuses_of_nothing(hosts, tmp_path, row):
    status, reason, doubts = run(row, hosts, tmp_path)
    assert status == Status.ok, reason
    true = row.found or "nothing"
    if row.precision != Precision.fp32:  # rounding may choose other boxes, experts or codes
        true += "|the output differs by .* from the output in fp32"
    assert [text for text in doubts if not (ABOUT_TIMES.match(text) or re.search(true, text))] == []


@pytest.mark.parametrize("row", [*chain(*ACCIDENTS)])
def test_a_user_hears_of_an_accident(hosts, tmp_path, row):
    _, reason, doubts = run(row, hosts, tmp_path)
    doubts = [text for text in doubts if not ABOUT_TIMES.match(text)]
    assert re.search(row.found, reason.partition("\n")[0] or "; ".join(doubts)), (reason, doubts)


@pytest.mark.parametrize(("num", "told"), [(20, 40), slow(7, 30), slow(20, 22), slow(64, 80)])
def test_a_loader_that_gives_less_than_it_tells_is_counted_as_it_gives(hosts, tmp_path, num, told):
    more = {"data_args": {"stream": [num, told]}, "batch_size": 4}
    outcome = hosts.run(cell_of(Row("modules.Lit", "train", Precision.fp32, "", more)), tmp_path)
    assert (outcome.status, outcome.reason) == (Status.ok, None)
    # Each epoch ends with a batch of num % 4 samples, if that is not 0.
    assert outcome.measurement.samples_per_step == pytest.approx(num / -(-num // 4), rel=0.05)


@pytest.mark.parametrize(
    ("asked", "stop", "said"),
    [
        ({"protocol": Protocol.steps, "warmup": 1, "steps": 1000}, Stop.timeout, "partial: .* of 1,000"),
        slow({"window": Window(measure_s=9.0)}, Stop.timeout, "partial: .* steps, timeout_s"),
        ({"window": Window(measure_s=9.0), "budget_s": 0.5}, Stop.budget, "6 steps were measured, after 2 of warm-up"),
    ],
)
def test_slow_steps_end_in_time(hosts, tmp_path, asked, stop, said):
    cell = cell_of(Row("Sleeps", "infer", Precision.fp32, "", {"timeout_s": 4.0, **asked}))
    outcome = hosts.run(cell, tmp_path)
    measured = outcome.measurement
    assert (outcome.status, measured.stop) == (Status.ok, stop), outcome.reason
    assert len(measured.latency_s) == len(measured.blocks) >= 6
    assert re.search(said, summarise(make_record(cell, measurement=measured))["warnings"])
