"""`accelbench run`, the default: measures one cell, or every combination; and all settings, for its help."""

import textwrap
from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

from accelbench.commands.command import VERBOSE, Command, Context, flag, width
from accelbench.errors import UserError
from accelbench.project import shown, workplace
from accelbench.settings.config import LIST, MAPPING, About, RunConfig, SweepOptions, every_setting

KINDS = {"a whole number": "N", "a number": "X", "a text": "TEXT", LIST: "[...]", MAPPING: "{NAME: ...}"}
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")  # of --info
INDENT = 30  # columns before a meaning
EXAMPLES = """
examples:
  accelbench model=cnn precision=bf16 batch_size=256 mode=infer
  accelbench -m model=mlp,cnn batch_size=32,128
  accelbench -m engine=pytorch,keras model=mlp,lstm
  accelbench -m model=torchvision model.name=resnet18 compile=false,true
  accelbench model=transformers model.name=bert model.batch_args.seq_len=64
  accelbench model=custom model.target=my_package.nets.MyNet
  accelbench model=lightning model.target=my_package.LitNet
  accelbench plan suite=mnist_networks
  accelbench compare --run "model=cnn" "model=cnn precision=bf16"
"""


def settings() -> str:
    """Every setting, with its words and its meaning, and examples."""
    lines = [
        "settings (in a project, params.yaml has the sweeps that `dvc repro` runs;",
        "`accelbench --cfg job` prints every setting with its value)",
    ]
    section = None
    for each in every_setting(workplace().conf):
        if (found := each.name.partition(".")[0] if "." in each.name else "") != section or each.name == "mode":
            lines.append("")
        section = found
        lines += _lines(each)
    return "\n".join(lines) + "\n" + EXAMPLES


def _lines(setting: About) -> list[str]:
    name = f"  {setting.name}={'|'.join(setting.choices) or KINDS[setting.kind]}"
    words = textwrap.wrap(name.replace("|", "| "), width(), subsequent_indent=" " * 8, break_on_hyphens=False)
    words = [line.replace("| ", "|") for line in words]
    meaning = textwrap.wrap(setting.meaning, width() - INDENT, break_long_words=False)
    beside = len(words) == 1 and len(words[0]) < INDENT
    first = [f"{words[0]:<{INDENT}}{meaning.pop(0)}"] if beside else words
    return first + [" " * INDENT + line for line in meaning]


def _run(chosen: Namespace, context: Context) -> int:
    valued = {name: getattr(chosen, name) for name in ("cfg", "package", "info", "config_dir")}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in valued.items() if value is not None]
    flags += ["--resolve"] * chosen.resolve + ["--hydra-help"] * chosen.hydra_help
    if chosen.resolve and not chosen.cfg:
        raise UserError("--resolve: goes with --cfg")
    num_unexpected = 0
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.answers.process import Process
        from accelbench.cluster import dispatch
        from accelbench.settings import application
        from accelbench.settings.compose import cells_of
        from accelbench.sweep import run as sweep
        from accelbench.sweep import terminal

        def measure(runs: list[RunConfig], folder: Path) -> list[float]:
            nonlocal num_unexpected
            cells, options = cells_of(runs)
            options = replace(options, out=str(folder))
            result = dispatch.run(cells, options, context.console, hosts=hosts, show=partial(show, options))
            result.check_request(is_shown=True)
            num_unexpected += result.num_unexpected
            speeds = {each.cell.id: Process.of(each).number("samples_per_s") for each in result.records}
            of_cells = [speeds.get(cell.id) or 0.0 for cell in cells]
            return [fmean(of_cells[at : at + options.repeats]) for at in range(0, len(cells), options.repeats)]

        def show(options: SweepOptions, result: sweep.SweepResult) -> None:
            folder = shown(result.folder)
            if len(result.records) == 1:
                (record,) = result.records
                is_told = record.user_error or record.sweep_id == result.sweep_id
                path = f"{folder}/{record.name}.json"
                terminal.show_card(record, path, context.console, says_why=not is_told, waited_s=result.waited_s)
            else:
                terminal.conclude(result, context.console)
                terminal.show_answer(result.records, folder, context.console, options.words)

        words = [word for word in chosen.words if word != "--"] + [VERBOSE] * chosen.verbose
        application.run(measure, flags, words, is_sweep=chosen.multirun)
    return 1 if num_unexpected else 0


COMMAND = Command(
    name="run",
    summary="measure one cell, or with -m every combination of lists",
    run=_run,
    flags=(
        flag("-m", "--multirun", help="measure every combination of listed values"),
        flag("-v", "--verbose", help="show what the cells' libraries print, too"),
        flag(
            "--cfg",
            "-c",
            metavar="KIND",
            choices=("job", "hydra", "all"),
            help="print the settings (job, hydra, all), and end",
        ),
        flag("--package", "-p", metavar="NAME", help="with --cfg: the section to print"),
        flag("--resolve", help="with --cfg: print values instead of references to them"),
        flag("--config-dir", metavar="DIR", help="a folder of settings beside conf/"),
        flag("--info", "-i", nargs="?", const="all", metavar="WHAT", choices=INFO, help="print what Hydra found"),
        flag("--hydra-help", help="print Hydra's help"),
    ),
    usage="[-m] [-v] [flag ...]",
    epilog=settings,
    takes_settings=True,
    has_hydra_words=True,
)
