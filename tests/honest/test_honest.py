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
from accelbench.schema import cell as schema
from accelbench.schema.cell import DataSpec, Mode, ModelSpec, Pipeline, Precision, Protocol, Status, Stop, Window
from engines.cells import RANDOM, own_cell
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


def loaders(**args):
    return DataSpec(name=schema.MODULE, target="honest.modules.Data", args=args)


ALL = "infer train measure measure_train"
SAME = "the output is the same for different inputs"
BOTH = "fp32 bf16"
# The speed of a program whose work depends on its inputs is that of the inputs that were fed.
DEPENDS = "depends on (its|the) inputs|of the inputs that were fed|uneven|some steps take much longer"

HONEST = [
    program("Plain", modes=ALL, precisions="fp32 bf16 fp64 bf16_mixed", quick="infer"),
    program("Plain", data=replace(RANDOM, pipeline=Pipeline.fresh), note="fresh"),
    program("Plain", data=replace(RANDOM, pipeline=Pipeline.device), note="device"),
    program("Plain", batch_size=1, note="one sample", precisions=BOTH),
    program("Plain", batch="same_vectors"),
    program("Plain", batch="labelled", modes="train", loss="classify", optimizer="lbfgs", learning_rate=0.1, note="lbfgs", quick="train"),
    program("RotaryTable", batch="sequences", modes=ALL, precisions=BOTH, quick="train"),
    program("TurnsAnew", batch="sequences", modes=ALL, precisions="bf16 fp32", quick="infer"),
    program("ComplexLayers", batch="signals", modes=ALL, quick="train"),
    program("WhitensInPlace", modes=ALL, precisions=BOTH, quick="infer"),
    program("HidesTokens", batch="ids", modes=ALL, quick="train"),
    program("PopsWeight", batch="nested_mapping", loss="classify", quick="infer"),
    program("Plain", batch="labelled", modes="train measure_train", loss="pops", quick="measure_train"),
    program("Boxes", batch="images", precisions=BOTH, quick="infer"),
    program("FindsNone", modes="infer measure", precisions=BOTH, quick="infer"),
    program("CellStates", batch="sequences", batch_size=4, quick="infer"),
    program("WholeBatch", modes="infer train measure", quick="infer"),
    program("Classes", modes="infer measure", precisions=BOTH, quick="infer"),
    program("Hashes", batch="ids", modes="infer train measure", precisions=BOTH, quick="infer"),
    program("Pull", modes=ALL, quick="infer"),
    program("PullOutside", modes="infer measure", quick="infer"),
    program("PullByFunction", modes="infer measure", precisions=BOTH, quick="infer"),
    program("Forbids", batch="labelled", loss="classify", modes=ALL, precisions=BOTH, quick="train"),
    program("LateLayers", batch="images", quick="train"),
    program("SparseWords", batch="coo", quick="train"),
    program("SparseRows", quick="infer"),
    program("NestedRows", batch="nested", modes="infer measure", quick="infer"),
    program("WordVectors", batch="ids", modes="train", optimizer="torch.optim.SparseAdam", quick="train"),
    program("SparseBags", batch="bags", optimizer="torch.optim.Adagrad"),
    program("BagsOfWords", batch="bags", modes="infer train measure", precisions=BOTH, quick="infer"),
    program("Packed", batch="tokens_in_budget", samples="num_sequences", batch_size=12, quick="train"),
    program("Masks", batch="tuple_with_none", modes="infer", quick="infer"),
    program("scripted", factory=True, quick="train"),
    program("frozen", modes="infer", factory=True, quick="infer"),
    program("compiled", factory=True, quick="train"),
    program("exported", factory=True, quick="infer"),
    program("EmptyCodebook", modes="infer measure", precisions=BOTH, quick="infer", found=SAME),
    program("ZeroHead", batch="labelled", modes="infer train measure", loss="classify", quick="infer", found=SAME),
    # How often it computes depends on the load of the machine: not in `make test`.
    program("UntilLate", modes="infer train measure", found="the output differs by .* from the output in fp32"),
    program("OneBuffer", modes="infer measure", precisions=BOTH, quick="infer"),
    program("Denoises", quick="train"),
    program("RunningMean", modes=ALL, quick="infer"),
    program("GrowingTable", modes="infer train measure", precisions=BOTH, quick="infer"),
    program("BlendsIn", modes=ALL, precisions=BOTH, quick="infer"),
    program("BeginsWhite", modes=ALL, precisions=BOTH, quick="train"),
    program("WindowMean", modes="infer train measure", precisions=BOTH, quick="infer"),
    program("Calibrates", modes=ALL, precisions=BOTH, quick="infer"),
    program("Tied", batch="ids", precisions=BOTH, quick="train"),
    program("FrozenBody", quick="train"),
    program("Parametrised", modes=ALL, precisions=BOTH, quick="measure"),
    program("Experts", precisions=BOTH, quick="train"),
    program("ExitsEarly", found=DEPENDS, quick="infer"),
    program("Plain", batch="labelled", modes="train", loss="separates", optimizer="torch.optim.SGD", learning_rate=0.3, found="all gradients are 0", window=LATE, note="all right", quick="train"),
    program("Doubles", precisions="fp64 fp32"),
    program("modules.Lit", modes="infer train", quick="infer"),
    program("modules.Lit", modes="train", trainer=schema.TrainerSettings(accumulate_grad_batches=4), note="accumulates"),
    program("modules.Lit", modes="train", data=loaders(stream=[70]), note="stream"),
    program("modules.TakesNoWarning", modes="infer train", quick="train"),
    program("modules.Lit", modes="infer", batch_size=1, note="one sample"),
    program("modules.Embeds", modes="infer", batch_size=1, data=loaders(tokens="drawn")),
    program("modules.Embeds", modes="infer", data=loaders(tokens="the same"), note="the same"),
    program("modules.Gan", modes="train", quick="train"),
    program("modules.AccumulatesByHand", modes="train", quick="train"),
    program("modules.FineTunes", modes="train"),
    program("modules.TakesOut", modes="infer train", data=loaders(mapping=True), quick="train"),
    program("modules.ScalesInPlace", modes="infer train"),
]  # fmt: skip

STALE = "kept|earlier|differs|not that of|does not depend"
NOTHING = "nothing was trained|no weight changed|did not change"
NO_GRADIENTS = "did not change|no gradient"
ACCIDENTS = [
    program("accidents.HalfInside", modes="infer", found="bf16|bfloat16", quick="infer"),
    program("accidents.HalfInBuffer", modes="infer", found="bf16|bfloat16", quick="infer"),
    program("accidents.Quantised", modes="infer", found="int8|not observed", quick="infer"),
    program("accidents.NumpysThreads", modes="infer", found="threads", window=Window(measure_s=0.8, latency_s=0.2)),
    program("Plain", modes="train", found="finite", precisions="fp16", loss="accidents.overflows"),
    program("accidents.IgnoresInput", modes="infer", found=SAME, quick="infer"),
    program("accidents.KeepsFeatures", modes="infer measure", found=STALE, precisions="fp32 bf16", quick="infer"),
    program("accidents.KeepsOneSize", modes="infer", found=STALE, quick="infer"),
    program("accidents.KeepsInBuffer", modes="infer", found=STALE, quick="infer"),
    program("accidents.KeepsUnseeded", modes="infer", found=STALE, quick="infer"),
    program("accidents.KeepsClasses", modes="infer", found=STALE, quick="infer"),
    program("accidents.StaysInTraining", modes="infer", found="layers in training mode during inference", quick="infer"),
    program("Plain", modes="train", found=NOTHING, optimizer="torch.optim.SGD", learning_rate=1e-30, note="tiny rate"),
    program("Plain", modes="train", found=NOTHING, optimizer="accidents.of_another", note="of another", quick="train"),
    program("Plain", modes="train", found="finite", optimizer="torch.optim.SGD", learning_rate=1e30, note="far too fast", quick="train"),
    program("accidents.Detaches", modes="train", found=NO_GRADIENTS, quick="train"),
    program("accidents.AllFrozen", modes="train", found="empty parameter list"),
    program("accidents.StaysInEval", modes="train", found="layers in evaluation mode during training", quick="train"),
    program("Plain", modes="infer", found="was called for 8 samples", batch="accidents.too_few", quick="infer"),
    program("modules.NeverBackward", modes="train", found=NOTHING, quick="train"),
    program("modules.CropsInTransfer", modes="train", found="most batches have 2 samples", quick="train"),
    program("modules.KeepsPrediction", modes="infer", found=STALE, quick="infer"),
]  # fmt: skip


def path(name):
    if name.startswith("torch."):
        return name
    return f"honest.{name}" if "." in name else f"honest.networks.{name}"


def functions_of(row):
    names = {"batch": "vectors", "loss": "energy"} | row.more
    return {name: path(names[name]) for name in ("batch", "loss", "samples", "optimizer") if name in names}


def cell_of(row):
    more = {"batch_size": 8, "breakdown_s": 0.0, "window": SHORT, "threads": 1, "precision": row.precision, **row.more}
    if row.target.startswith("modules."):
        model = ModelSpec(name=row.target, library=schema.Library.lightning, network=path(row.target))
        settings = {"model": model, "mode": Mode(row.mode), "data": loaders(), "trainer": schema.TrainerSettings()}
        return make_cell(**settings | more)
    more |= functions_of(row)
    if row.mode == Mode.infer:
        del more["loss"]
    return own_cell(path(row.target), more.pop("batch"), **more)


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
    functions = {name: resolve_name(dotted) for name, dotted in functions_of(row).items()}
    asked = {"mode": "train", "loss": functions["loss"]} if row.mode == "measure_train" else {}
    network, batch = resolve_name(path(row.target))(), functions["batch"](8)
    try:
        measured = accelbench.measure(network, batch, precision=row.precision, window=SHORT, **asked)
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
    more = {"data": loaders(stream=[num, told]), "batch_size": 4}
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
