"""The command line: parse, plan, run, record; the one place that turns a user's mistake into exit code 2."""

import argparse
import difflib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from accelbench import project
from accelbench.commands import completion
from accelbench.errors import UserError
from accelbench.grid import prepare
from accelbench.grid.plan import Planned
from accelbench.presentation import duration
from accelbench.schema.serialize import canonical_json
from accelbench.settings import params
from accelbench.settings.compose import Parser, cells_of, compose, one_cell
from accelbench.settings.hydra_errors import as_user_error
from accelbench.sinks.location import PORT
from accelbench.sweep import card, run

USAGE = """\
accelbench measures how fast a model trains and infers on each device, precision and batch size.

usage: accelbench [run] [-m] [name=value ...]   measure one cell, or with -m every combination of lists
       accelbench plan [name=value ...]         show the cells of such a sweep and how long they take (--json: as JSON)
       accelbench compare A B                   same, faster, slower or can't tell; `compare --help` has the terms
       accelbench compare --run "name=value ..." "name=value ..."
                                                measure two cells in turns, and compare them
       accelbench doctor [--probe]              show what this machine has and can do, and what would be skipped
       accelbench report [folder]               build the report of results/, or of a folder under runs/
       accelbench best [folder] [--latency-ms MS]   what to use, by throughput, latency, energy and money
       accelbench best --largest-batch name=value ...   find the largest batch that fits
       accelbench sync                          deliver the records that MLflow missed
       accelbench ui [--port N] [--no-browser]  open MLflow on the saved view
       accelbench completion bash|zsh           print what completes these words in that shell

settings (conf/ has the words, params.yaml the sweeps that `dvc repro` runs):
  model=mlp|cnn|rnn|lstm|autoencoder|pets_cnn  model.args.NAME, model.optimizer, model.learning_rate
        mlp_cifar10|mlp_fashion_mnist_1|mlp_fashion_mnist_5|scaling_cnn_small|scaling_cnn_medium|scaling_cnn_large
  model=timm|torchvision model.name=resnet50   any network of theirs; model.weights=none|pretrained
  model=custom model.target=my_package.nets.MyNet +model.args.width=64 model.input_shape=[3,32,32]
  device=cpu|gpu|tpu|xla_cpu                   mode=train|infer
  precision=fp16|bf16|fp32|tf32|fp64|fp16_mixed|bf16_mixed
  engine=lightning|keras                       engine.backend=tensorflow|jax, engine.jit_compile=true|false,
                                               engine.steps_per_execution=N, engine.tpu=local|NAME; docs/engines.md
                                               engine.xla_processes=true|false (of Lightning); docs/devices.md
  batch_size=N (the study's by default)        threads=N (all cores by default)
  devices=N  scaling=strong|weak               N devices share the batch, or have one each; docs/devices.md
  protocol=window|steps|fit                    warmup=N steps=N (of steps), epochs=N (the study's by default)
  channels_last=true compile=true freeze=true cuda_graphs=true    each off by default; docs/options.md
  suite=mnist_networks profile=quick|full      the axes of params.yaml; what you name wins
  data=mnist|fashion_mnist|cifar10|cats_vs_dogs|random
  data.pipeline=array|jpeg|host|device         data.num_workers=N  data.augment=none|flip|flip_shift
  repeats=N                                    N fresh processes of each cell: all cells once, then all again, ...
  seed=N  repeat=N  timeout_s=S  out=FOLDER  retry=none|failed  tracking=mlflow|none
  window.width=0.02 window.measure_s=S ...     how exact, how long; --cfg job prints all of them
  breakdown_s=S                                for timing each phase of a step; 0 for none
  -v (or verbose=true)                         show what the cells' libraries print, too

examples:
  accelbench model=cnn device=cpu precision=bf16 batch_size=256 mode=infer
  accelbench -m model=mlp,cnn batch_size=32,128
  accelbench -m engine=lightning,keras model=mlp,lstm
  accelbench -m model=torchvision model.name=resnet18 mode=infer channels_last=false,true compile=false,true
  accelbench plan suite=mnist_networks
  accelbench compare --run "model=cnn precision=fp32" "model=cnn precision=bf16"
"""

# Each with its flags.
COMMANDS = {
    "run": ("-m", "-v", "--cfg"),
    "plan": ("--json",),
    "compare": ("--run", "--repeats", "--margin", "--fail-if", "--anyway", "-v"),
    "best": ("--latency-ms", "--largest-batch", "-v"),
    "doctor": ("--probe",),
    "report": (),
    "sync": (),
    "ui": ("--port", "--no-browser"),
    "completion": (),
}
VERBOSE = "verbose=true"


def main(arguments: Sequence[str] | None = None, out: Path | None = None) -> int:
    """Runs one command and returns its exit status.

    Args:
        arguments: the words after the program's name; None for this process's.
        out: the folder for a sweep's records, which the pipeline alone chooses.

    Returns:
        0: done. 1: done, but a cell ended as nobody asked for. 2: the user can mend it, and was told how.
        130: interrupted.
    """
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a log shows each cell at once
    words = list(sys.argv[1:] if arguments is None else arguments)
    console = Console(highlight=False)
    try:
        return _dispatch(words, console, out)
    except run.UnexpectedOutcomeError:
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted; every finished cell has its record.", file=sys.stderr)
        return 130
    except Exception as error:
        mended = as_user_error(error)
        if mended is None:
            raise
        print(f"accelbench: {mended}", file=sys.stderr)
        return 2


def _dispatch(words: list[str], console: Console, out: Path | None) -> int:
    if words and words[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    command, rest = (words[0], words[1:]) if words and words[0] in COMMANDS else ("run", words)
    if command in ("run", "plan") and rest and "=" not in rest[0] and not rest[0].startswith("-"):
        near = difflib.get_close_matches(rest[0], COMMANDS, n=1)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise UserError(f"{rest[0]}: unknown command. {meant}Choose from: {', '.join(COMMANDS)}; or give name=value.")
    if "-h" in rest or "--help" in rest:
        print(_usage(command), end="")
        return 0
    if command == "run":
        return _run([VERBOSE if word in ("-v", "--verbose") else word for word in rest], console, out)
    others = {
        "plan": _plan,
        "compare": _compare,
        "best": _best,
        "doctor": _doctor,
        "report": _report,
        "sync": _sync,
        "ui": _ui,
        "completion": _completion,
    }
    return others[command](rest, console)


def _run(words: list[str], console: Console, out: Path | None) -> int:
    def measure(configs: list[DictConfig]) -> None:
        cells, options = cells_of(configs)
        result = run.run(cells, options, console, out)
        if len(cells) == 1:
            (done,) = result.records
            card.show(done, {"record": f"{run.shown(result.folder)}/{done.name}.json", **result.links}, console)
        if result.num_unexpected:
            raise run.UnexpectedOutcomeError

    compose(words, measure)
    return 0


def _plan(words: list[str], console: Console) -> int:
    multirun = words if {"-m", "--multirun"} & set(words) else ["-m", *words]
    if "--json" in words:
        compose([word for word in multirun if word != "--json"], _print_cells)
        return 0

    def show(configs: list[DictConfig]) -> None:
        cells, _ = cells_of(configs)
        ready = prepare.prepare(cells)
        for item, seconds in zip(ready.planned, ready.estimates, strict=True):
            console.print(f"{item.cell.label:<42}", _expectation(item, seconds), markup=False, soft_wrap=True)
        known = [seconds for seconds in ready.estimates if seconds is not None]
        num_run = sum(item.skip_reason is None for item in ready.planned)
        num_unknown = len(ready.planned) - len(known)
        unknown = f", and {num_unknown} of unknown length" if num_unknown else ""
        console.print(
            f"\n{len(ready.planned)} cells: {num_run} to run in about {duration(sum(known))}{unknown}; "
            f"{len(ready.planned) - num_run} to skip."
        )

    compose(multirun, show)
    return 0


def _print_cells(configs: list[DictConfig]) -> None:
    """A line of JSON for each cell, as `python -m accelbench.worker` reads it."""
    for cell in cells_of(configs)[0]:
        print(canonical_json(cell.to_json()))


def _expectation(item: Planned, seconds: float | None) -> str:
    if item.skip_reason is not None:
        return f"skip: {item.skip_reason}"
    return "whole epochs" if seconds is None else f"about {duration(seconds)}"


def _usage(command: str) -> str:
    if command != "compare":
        return USAGE
    from accelbench.compare import answer

    return answer.USAGE


def _compare(words: list[str], console: Console) -> int:
    from accelbench.compare import answer, record_sets
    from accelbench.sweep import interleaved  # numpy and scipy take their time

    parser = _parser("compare")
    parser.add_argument("sides", nargs="+")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--anyway", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    for flag in ("--repeats", "--margin", "--fail-if"):
        parser.add_argument(flag)
    chosen = parser.parse_intermixed_args(words)
    terms = answer.terms(chosen.margin, chosen.fail_if, anyway=chosen.anyway or chosen.run or len(chosen.sides) == 1)
    root, names = project.project_root(), chosen.sides
    if len(names) not in ((2,) if chosen.run else (1, 2)):
        raise UserError(f"compare: takes two sides, {len(names)} given; words with spaces go in quotes")
    if chosen.verbose and not chosen.run:
        raise UserError("-v: goes with --run; what lies in records is not run again")
    if chosen.repeats is not None and not chosen.run:
        raise UserError("--repeats: goes with --run; what lies in records was measured as often as it was")
    if not chosen.run:
        first, second = (
            interleaved.load(Path(names[0])) if len(names) == 1 else (record_sets.find(name, root) for name in names)
        )
        return answer.answer(first, second, terms, console)
    shown = f" {VERBOSE}" if chosen.verbose else ""
    order, options = interleaved.plan(one_cell(names[0] + shown), one_cell(names[1] + shown), chosen.repeats, root)
    result = run.run(order.cells, options, console)
    interleaved.save(order, (names[0], names[1]), result.records, result.folder)
    status = answer.answer(*interleaved.load(result.folder), terms, console)
    return 1 if result.num_unexpected else status


def _best(words: list[str], console: Console) -> int:
    parser = _parser("best")
    parser.add_argument("words", nargs="*", metavar="folder", help="records: results, or a folder under runs/")
    parser.add_argument("--latency-ms", help="the longest median latency that is allowed")
    parser.add_argument("--largest-batch", action="store_true", help="search it for the cell that name=value ... is")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the cells' libraries print")
    chosen = parser.parse_intermixed_args(words)
    if chosen.largest_batch:
        from accelbench.sweep import largest_batch

        if chosen.latency_ms is not None:
            raise UserError("--latency-ms: goes with records, and not with --largest-batch")
        words = [*chosen.words, VERBOSE] if chosen.verbose else chosen.words
        return largest_batch.find(*one_cell(shlex.join(words)), console)
    if chosen.verbose:
        raise UserError("-v: goes with --largest-batch; what lies in records is not run again")
    if len(chosen.words) > 1 or any("=" in word for word in chosen.words):
        raise UserError("best: takes one folder of records; name=value goes with --largest-batch")
    from accelbench.report import read as sweeps
    from accelbench.report.tables import best
    from accelbench.report.terminal import rendered

    try:
        limit = None if chosen.latency_ms is None else float(chosen.latency_ms)
    except ValueError as error:
        raise UserError(f"--latency-ms={chosen.latency_ms}: should be a number of milliseconds") from error
    root = project.project_root()
    found = best.table(sweeps.read_all(root / (*chosen.words, "results")[0], params.costs(root)), limit)
    if found is None:
        raise UserError("best: no ok cell" + ("" if limit is None else f" is within {limit:g} ms"))
    console.print(rendered(found))
    for note in found.notes:
        console.print(note, style="dim")
    return 0


def _doctor(words: list[str], console: Console) -> int:
    parser = _parser("doctor")
    parser.add_argument("--probe", action="store_true", help="measure what each device can do at most")
    chosen = parser.parse_args(words)
    from accelbench.commands.doctor import show

    show(project.project_root(), console, probe=chosen.probe)
    return 0


def _report(words: list[str], console: Console) -> int:
    parser = _parser("report")
    parser.add_argument("folder", nargs="?", default="results", help="records: results, or a folder under runs/")
    folder = Path(parser.parse_args(words).folder)
    from accelbench.report.build import build  # pandas and the plot library take a second

    root = project.project_root()
    out = root / "report" if folder == Path("results") else folder / "report"
    console.print(f"Report: {build(root / folder, out, params.costs(root))}", soft_wrap=True)
    return 0


def _sync(words: list[str], console: Console) -> int:
    _parser("sync").parse_args(words)
    from accelbench.sinks.sync import sync

    root = project.project_root()
    console.print(str(sync(root, [root / "results", root / "runs"])))
    return 0


def _ui(words: list[str], console: Console) -> int:
    parser = _parser("ui")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--no-browser", action="store_true", help="print the address only")
    chosen = parser.parse_args(words)
    from accelbench.sinks.ui import serve

    return serve(project.project_root(), chosen.port, open_browser=not chosen.no_browser)


def _completion(words: list[str], console: Console) -> int:
    parser = _parser("completion")
    parser.add_argument("shell", choices=completion.SHELLS)
    shell = parser.parse_args(words).shell
    print(completion.script(shell, COMMANDS, project.project_root()), end="")
    return 0


def _parser(command: str) -> argparse.ArgumentParser:
    return Parser(prog=f"accelbench {command}")


if __name__ == "__main__":
    sys.exit(main())
