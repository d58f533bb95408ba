"""`accelbench run` (the default) measures cells. `accelbench plan` shows the cells that it would measure."""

import textwrap
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from rich.console import Console

from accelbench.commands.command import (
    ALL,
    command,
    flag,
    say,
    show_sweep,
    width,
    words_of,
)
from accelbench.errors import UserError, did_you_mean
from accelbench.presentation import counted
from accelbench.project import Workplace, shown, workplace
from accelbench.schema.serialize import grouped

if TYPE_CHECKING:
    from accelbench.grid.plan import Planned
    from accelbench.schema.cell import Cell
    from accelbench.settings.config import About, RunConfig, SweepOptions
    from accelbench.sweep.run import SweepResult

INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")  # the words that --info takes
INDENT = 6  # columns before a meaning
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
MAX_LISTED = 20  # cells that run, or that are skipped for one reason
LABEL_WIDTH = 42
WORDS = flag("words", nargs="*", metavar="name=value", help="settings")


def settings(topic: str) -> str:
    """Returns the help on the settings of a `topic`.

    Without a topic, it explains the settings that every cell has, and lists the names of all other settings.

    Raises UserError: no topic and no setting has the name `topic`.
    """
    from accelbench.settings.config import every_setting

    every = list(every_setting(workplace().conf))
    by_topic = grouped(every, lambda setting: setting.topic)
    chosen = by_topic.get(topic) or [
        setting for setting in every if f"{setting.name}.".startswith(f"{topic}.")
    ]
    if chosen:
        return "".join(map(_lines, chosen))
    text = "settings (--cfg job prints all with their values)\n"
    if topic == ALL:
        return (
            text + "".join("\n" + "".join(map(_lines, of_topic)) for of_topic in by_topic.values()) + EXAMPLES
        )
    if topic:
        meant = did_you_mean(topic, [*by_topic, *(setting.name for setting in every)])
        topics = ", ".join([*by_topic, ALL])
        raise UserError(f"--help {topic}: unknown topic.{meant} Choose from: {topics}; or name a setting.")
    text += "".join(_lines(setting) for setting in every if setting.is_needed)
    text += "\ntopics (--help TOPIC explains one, --help all explains all)\n"
    for name, of_topic in by_topic.items():
        names = " ".join(
            setting.name.removeprefix(f"{name}.") for setting in of_topic if not setting.is_needed
        )
        if names:
            text += textwrap.fill(f"  {name:<11}{names}", width(), subsequent_indent=" " * 13) + "\n"
    return text + EXAMPLES


def _lines(setting: "About") -> str:
    from accelbench.settings.config import LIST, MAPPING

    kinds = {"a whole number": "N", "a number": "X", "a text": "TEXT", LIST: "[...]", MAPPING: "{NAME: ...}"}
    name = f"  {setting.name}={'| '.join(setting.choices) or kinds[setting.kind]}"
    words = textwrap.fill(name, width(), subsequent_indent=" " * INDENT, break_on_hyphens=False).replace(
        "| ", "|"
    )
    indent = " " * INDENT
    meaning = textwrap.fill(setting.meaning, width(), initial_indent=indent, subsequent_indent=indent)
    return f"{words}\n{meaning}\n"


@command(
    "run",
    "measure one cell, or with -m every combination of lists",
    flag("-m", "--multirun", help="measure every combination of listed values"),
    flag("-v", "--verbose", help="show what the cells' libraries print, too"),
    flag(
        *("--cfg", "-c"),
        metavar="KIND",
        choices=("job", "hydra", "all"),
        help="print the settings (job, hydra, all), and exit",
    ),
    flag("--package", "-p", metavar="NAME", help="with --cfg: the section to print"),
    flag("--resolve", help="with --cfg: print values instead of references to them"),
    flag("--config-dir", metavar="DIR", help="a folder of settings beside conf/"),
    flag("--info", "-i", nargs="?", const="all", metavar="WHAT", choices=INFO, help="print what Hydra found"),
    flag("--hydra-help", help="print Hydra's help"),
    WORDS,
    usage="[-m] [-v] [flag ...] [name=value ...]\n       accelbench run --help [TOPIC]",
    epilog=settings,
    takes_settings=True,
)
def run(chosen: Namespace, console: Console) -> int:
    """Composes the words with Hydra, and measures the cells."""
    if chosen.resolve and not chosen.cfg:
        raise UserError("--resolve: needs --cfg")
    if [chosen.multirun, chosen.cfg is not None, chosen.info is not None].count(True) > 1:
        raise UserError("-m, --cfg, --info: only one of these can be used")
    flags = []
    for name in ("cfg", "package", "info", "config_dir", "resolve", "hydra_help"):
        word = f"--{name.replace('_', '-')}"
        if value := getattr(chosen, name):
            flags.append(word if value is True else f"{word}={value}")
    num_unexpected = 0
    from accelbench.isolation.hosts import Hosts

    with Hosts() as hosts:
        from accelbench.answers.cells import Process
        from accelbench.cluster import controller
        from accelbench.settings.compose import cells_of, run_hydra

        def measure(runs: "list[RunConfig]", folder: Path) -> list[float]:
            nonlocal num_unexpected
            cells, options = cells_of(runs)
            options = replace(options, out=str(folder))
            show = partial(_show, options, console)
            result = controller.run(cells, options, console, hosts=hosts, show=show)
            result.check_request()
            num_unexpected += result.num_unexpected
            speeds = {record.cell.id: Process.of(record).number("samples_per_s") for record in result.records}
            of_cells = [speeds.get(cell.id) or 0.0 for cell in cells]
            return [
                fmean(of_cells[at : at + options.repeats]) for at in range(0, len(cells), options.repeats)
            ]

        run_hydra(measure, flags, words_of(chosen), is_sweep=chosen.multirun)
    return 1 if num_unexpected else 0


def _show(options: "SweepOptions", console: Console, result: "SweepResult") -> None:
    from accelbench.sweep.card import show_card

    if len(result.records) != 1:
        show_sweep(options, console, result)
        return
    (record,) = result.records
    is_told = record.user_error or record.sweep_id == result.sweep_id
    path = f"{shown(result.folder)}/{record.name}.json"
    show_card(record, path, console, says_why=not is_told, is_verbose=options.verbose)


@command(
    "plan",
    "show a sweep's cells, how long it takes, and what it skips",
    flag("-m", "--multirun", help="has no effect: every combination is planned"),
    flag("--cells", help="name every cell, however many they are"),
    flag("--json", help="print each cell as a line of JSON, for `python -m accelbench.worker`"),
    WORDS,
    usage="[--cells] [--json] [name=value ...]",
    description="Takes the settings of `accelbench run` (`accelbench run --help` lists them); -m is implied.",
    takes_settings=True,
)
def plan(chosen: Namespace, console: Console) -> int:
    """Shows the cells of one sweep."""
    from accelbench.grid.plan import Length, lengths, read_evidence
    from accelbench.schema.serialize import canonical_json, plain
    from accelbench.settings.compose import cells_of, compose

    cells, options = cells_of(compose(["-m", *words_of(chosen)]))
    if chosen.json:
        for cell in cells:
            print(canonical_json(plain(cell)))
        return 0
    place = workplace().with_data(options.data_root)
    items = []
    for of_data in grouped(cells, lambda cell: cell.data.name).values():
        items += _planned(of_data, place)
    runs = [item for item in items if item.skip_reason is None]
    cells = [item.cell for item in runs]
    times = lengths(cells, read_evidence(place.root))
    total = sum(times, Length())
    say(
        console,
        f"{counted(len(items), 'cell')}: {len(runs)} to run, {total}; {len(items) - len(runs)} to skip.",
        "",
    )
    num_listed = len(items) if chosen.cells else MAX_LISTED
    for item, length in zip(runs[:num_listed], times, strict=False):
        say(console, f"{item.label:<{LABEL_WIDTH}} {length}")
    if len(runs) > num_listed:
        say(console, f"and {len(runs) - num_listed} more: --cells names every cell")
    skipped = [item for item in items if item.skip_reason is not None]
    for reason, of_reason in grouped(skipped, lambda item: str(item.skip_reason)).items():
        labels = [item.label for item in of_reason[:num_listed]]
        more = f" and {len(of_reason) - num_listed} more" if len(of_reason) > num_listed else ""
        say(console, "", f"skip {len(of_reason)}: {reason}", f"  {', '.join(labels)}{more}")
    return 0


def _planned(cells: "Sequence[Cell]", place: Workplace) -> "list[Planned]":
    from accelbench.grid.plan import (
        Planned,
        check_fits,
        check_request,
        data_name,
        images_in,
        in_order,
        why_skipped,
    )
    from accelbench.schema.plan_file import labels

    check_request(cells)
    images = images_in(place.data / data_name(cells))
    check_fits(cells, *images)
    names = labels(cells)
    planned = {cell.id: Planned.of(cell, "", why_skipped(cell, *images), names[cell.id]) for cell in cells}
    return in_order(planned.values())
