"""Lists and declares the commands of `accelbench`. Their usage, help and completion come from the declarations.

The second half is code that several commands share, such as `--budget` and the default folder of records.

A command's module imports only what the help needs. When the command runs, it imports the rest, such as Hydra.
"""

import argparse
import importlib
import math
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from accelbench import presentation
from accelbench.errors import Parser, UserError, did_you_mean
from accelbench.presentation import seconds_of
from accelbench.project import CONFIRMED, RECORDS, RESULTS, RUNS, Workplace, shown
from accelbench.rules import Asked, Rule
from accelbench.schema.cell import Device, Status

if TYPE_CHECKING:
    from accelbench.judging.costs import Cost
    from accelbench.report.read import Sweep
    from accelbench.settings.config import SweepOptions
    from accelbench.sweep.run import SweepResult

MAX_WIDTH = 100  # columns of a help text: wider lines are hard to read
ALL = "all"  # the topic of --help that prints all other topics
VERBOSE = "verbose=true"  # the setting that -v stands for


# Module -> the names of its commands. The very first command is the default.
MODULES = {
    "measure": ("run", "plan"),
    "compare": ("compare", "regressions", "bisect", "selfcheck"),
    "best": ("best",),
    "share": ("report", "view", "figure", "export", "bundle", "verify", "replay", "merge"),
    "project": ("doctor", "sync", "ui", "init", "completion"),
}
PLACES = {name: module for module, names in MODULES.items() for name in names}
NAMES = tuple(PLACES)
MAX_SHOWN = 60  # characters of an unknown word

# Runs a command with the parsed words, and prints on the console. Returns the exit status.
Run = Callable[[Namespace, Console], int]
# The names of a flag, and further arguments of argparse's `add_argument`.
Flag = tuple[tuple[str, ...], dict[str, Any]]


def say(console: Console, *lines: object) -> None:
    """Prints each line."""
    for line in lines:
        presentation.say(console, line)


def flag(*names: str, **settings: Any) -> Flag:
    """Declares a flag, or an argument if the name has no dash. A flag with only a help text takes no value."""
    if names[0].startswith("-") and settings.keys() == {"help"}:
        settings["action"] = "store_true"
    return names, settings


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command; its name is the word after `accelbench`."""

    name: str
    summary: str  # one line for the list of commands
    run: Run
    flags: tuple[Flag, ...] = ()
    usage: str = ""  # without the program's name; by default, usage is made from the flags
    description: str = ""  # printed by --help between the summary and the flags
    epilog: Callable[[str], str] | None = (
        None  # the text of --help TOPIC; printed after the flags without a topic, and for ALL
    )
    takes_settings: bool = False  # whether name=value words are among its arguments

    def parse(self, words: Sequence[str]) -> Namespace:
        """Reads the words after the command's name. Raises UserError: a word is unknown, missing or malformed."""
        return self._parser().parse_intermixed_args(words)

    @property
    def flag_names(self) -> list[str]:
        """The flags, each by its first name."""
        return [names[0] for names, _ in self.flags if names[0].startswith("-")]

    def help(self, topic: str = "") -> str:
        """The text of `accelbench NAME --help TOPIC`. Raises UserError: the topic is unknown."""
        text = self.epilog(topic) if self.epilog else ""
        if text and topic not in ("", ALL):
            return text
        parser = self._parser()
        parser.epilog = text.rstrip() or None
        return parser.format_help()

    def _parser(self) -> Parser:
        parser = Parser(
            prog=f"accelbench {self.name}",
            usage=f"accelbench {self.name} {self.usage}".replace("%", "%%") if self.usage else None,
            description=f"{self.summary}\n\n{self.description}".rstrip(),
            formatter_class=_HelpFormatter,
            add_help=False,
        )
        for names, settings in self.flags:
            parser.add_argument(*names, **settings)
        return parser


def command(name: str, summary: str, *flags: Flag, **more: Any) -> Callable[[Run], Command]:
    """Returns a decorator that makes a command from a function. `more` are additional fields of `Command`."""
    return lambda run: Command(name=name, summary=summary, run=run, flags=flags, **more)


def width() -> int:
    """The columns of a help text."""
    return min(MAX_WIDTH, shutil.get_terminal_size().columns)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wraps long lines, and keeps line breaks. Each formatter of argparse does only one of these."""
        return "\n".join(textwrap.fill(line, width, break_long_words=False) for line in text.splitlines())


def load(name: str) -> Command:
    """The command of one of `NAMES`."""
    command: Command = getattr(importlib.import_module(f"accelbench.commands.{PLACES[name]}"), name)
    return command


def load_all() -> list[Command]:
    """All commands, in the order of `NAMES`."""
    return [load(name) for name in NAMES]


def choose(words: Sequence[str]) -> tuple[Command, list[str]]:
    """Returns the command that a command line names, and the words after the name. The default command is `run`.

    Raises UserError: the command is unknown.
    """
    first = words[0]
    if first in NAMES:
        return load(first), list(words[1:])
    if "=" not in first and not first.startswith(("-", "~")):
        word = first[:MAX_SHOWN]
        meant = did_you_mean(word, NAMES)
        raise UserError(
            f"{word}: unknown command.{meant} Choose from: {', '.join(NAMES)}; or give name=value."
        )
    return load(NAMES[0]), list(words)


def overview() -> str:
    """The help of `accelbench` itself: every command with its summary."""
    listed = "\n".join(f"  {command.name:<12}{command.summary}" for command in load_all())
    return f"""\
accelbench measures how fast a model trains and infers, and what is fastest.
usage: accelbench [run] [-m] [name=value ...], or accelbench COMMAND [flags]
{listed}
`accelbench COMMAND --help` lists flags, `accelbench run --help` settings
exit status: 0 done; 1 a cell failed, no answer, or --fail-if; 2 a mistake
"""


BUDGET = flag("--budget", metavar="5m", help="how long the command may take, in s, m or h")
FOLDER_HELP = "folder of records (default: a project's results/, else the newest in runs/ with an ok cell)"
FOLDER = flag("folder", nargs="?", help=FOLDER_HELP)
PRICE = flag("--price-per-hour", metavar="2.5", help="an hour's price, or for each device: gpu=2.5,cpu=0.1")

TARGET_FLAGS = (
    flag("--target", metavar="0.97", type=float, help="find which setting is trained to this accuracy first"),
    flag("--seeds", metavar="N", type=int, help="with --target: trainings of each setting (6)"),
)
TARGET_RULES = (
    Rule("target target>1", "--target {target}: should be an accuracy above 0 and at most 1, such as 0.97"),
    Rule("target target<=0", "--target {target}: should be an accuracy above 0 and at most 1, such as 0.97"),
    Rule("seeds !target", "--seeds: needs --target"),
    Rule("seeds<1", "--seeds: should be at least 1"),
)
DECIDED_BY_TARGET = {"protocol", "target.accuracy", "repeat", "repeats"}  # settings that these flags decide


def budget_in_s(chosen: Namespace, default: str) -> float:
    """The seconds of --budget. Raises UserError: it is not a time."""
    text = chosen.budget or default
    seconds = seconds_of(text)
    if seconds is None:
        raise UserError(f"--budget {text}: should be a time such as 90s, 5m or 2h")
    return seconds


def check(chosen: Namespace, rules: Iterable[Rule]) -> None:
    """Raises a UserError if flags do not go together."""
    flags = {name: value for name, value in vars(chosen).items() if value is not False}
    for problem in Asked(Namespace(**flags)).refusals(rules):
        raise UserError(problem)


def show_sweep(options: "SweepOptions", console: Console, result: "SweepResult") -> None:
    """Prints how the cells ended. For each job, prints the fastest setting among all records of the folder."""
    from accelbench.answers.time_to_goal import work_of
    from accelbench.report.read import read
    from accelbench.schema.cell import CHOSEN_SETTINGS
    from accelbench.sweep import terminal

    terminal.conclude(result, console)
    works = {work_of(record.cell).key_without(CHOSEN_SETTINGS) for record in result.records}
    planned = [
        one for one in read(result.folder).planned if work_of(one.cell).key_without(CHOSEN_SETTINGS) in works
    ]
    terminal.show_answer(planned, shown(result.folder), console)


def words_of(chosen: Namespace) -> list[str]:
    """Returns the words of the command line that are not flags. If -v is given, adds the setting that it stands for."""
    words = [word for word in chosen.words if word != "--"]
    return [*words, VERBOSE] if getattr(chosen, "verbose", False) else words


def names_of(words: Iterable[str]) -> set[str]:
    """Returns the names of the settings in words such as `batch_size=32`."""
    return {word.partition("=")[0] for word in words}


def default_folder(place: Workplace, console: Console) -> str:
    """Returns the default folder of records, relative to `place.root`.

    In a project with an ok cell in results/, it is results/. Otherwise, it is the folder under runs/ with the newest
    record, among the folders with an ok cell. Its name is printed. Raises UserError: there is no ok cell.
    """
    from accelbench.schema.plan_file import sweep_folders

    if place.project is not None and _has_ok(place.root / RESULTS):
        return RESULTS
    folders = [folder for folder in sweep_folders(place.root / RUNS) if folder.parent.name != CONFIRMED]
    written_s = {folder: [path.lstat().st_mtime for path in folder.glob(RECORDS)] for folder in folders}
    for folder in sorted(folders, key=lambda folder: max(written_s[folder], default=0.0), reverse=True):
        if _has_ok(folder):
            name = str(folder.relative_to(place.root))
            say(console, f"Records: {name}, the newest in {RUNS}/ with an ok cell")
            return name
    raise UserError(
        f"found no ok cell in a project's {RESULTS}/ or below {RUNS}/. To measure a cell, type `accelbench model=cnn`, "
        "or name a folder of records"
    )


def _has_ok(top: Path) -> bool:
    """Returns True if `top` or a folder below it has a readable record of an ok cell that was not disturbed."""
    from accelbench.judging.verdict import verdict_on
    from accelbench.schema.plan_file import record_paths
    from accelbench.schema.record import read_all

    # Read until the first ok cell.
    records = (record for path in record_paths(top) for record in read_all([path]))
    return any(verdict_on(record)[0] == Status.ok for record in records)


def say_notes(console: Console, sweeps: "Iterable[Sweep]") -> None:
    """Prints the notes of each sweep."""
    say(console, *(f"{sweep.folder}: {note}" for sweep in sweeps for note in sweep.notes))


def is_results(place: Workplace, name: str) -> bool:
    """Whether the folder `name` is the project's results/."""
    return place.project is not None and Path(name) == Path(RESULTS)


def report_folder(place: Workplace, name: str) -> Path:
    """Returns the folder of the report on the records in the folder `name`."""
    return (place.root if is_results(place, name) else Path(name)) / "report"


def costs(chosen: Namespace, project: Path | None) -> "dict[Device, Cost]":
    """Returns the project's costs, with the prices in --price-per-hour. Raises UserError: a price is wrong."""
    from msgspec.structs import replace as with_changes

    from accelbench.judging.costs import Cost
    from accelbench.settings import params

    costs_of = params.load(project).costs
    text = chosen.price_per_hour
    if text is None:
        return costs_of
    try:
        for price in text.split(","):
            name, sign, number = price.rpartition("=")
            per_hour = float(number)
            if not 0 < per_hour < math.inf or (not sign and price != text):
                raise ValueError
            for device in [Device(name)] if sign else Device:
                costs_of[device] = with_changes(costs_of.get(device, Cost()), price_per_hour=per_hour)
    except ValueError:
        wanted = "a price above 0, such as 2.5, or one for each device: gpu=2.5,cpu=0.1"
        raise UserError(f"--price-per-hour {text}: should be {wanted}") from None
    return costs_of


def find_target(sides: Sequence[str], chosen: Namespace, console: Console) -> int:
    """Trains all settings, interleaved by seed, and prints which setting reaches the target first.

    Returns the exit status. It is 1 if no setting reaches the target, or if a training failed. Otherwise, it is 0. If
    there are two sides and this machine can't run one of them, nothing is trained, and the status is 0.

    Raises UserError: the settings can't be trained to a target.
    """
    from accelbench.isolation.hosts import Hosts

    budget_s = budget_in_s(chosen, "10m")
    with Hosts() as hosts:
        from accelbench.answers.time_to_goal import MIN_SEEDS, target_answers
        from accelbench.report.read import read
        from accelbench.settings.compose import cells_of, compose, words_in
        from accelbench.sweep import run as sweep
        from accelbench.sweep.interleaved import why_pointless, with_seeds

        composed = []
        for side in sides:
            words = words_in(side)
            if refused := DECIDED_BY_TARGET & names_of(words):
                raise UserError(f"{min(refused)}: is decided by --target and --seeds, so leave it out")
            if chosen.verbose:
                words.append(VERBOSE)
            composed.append(compose(["-m", "protocol=target", f"target.accuracy={chosen.target}", *words]))
        cells, options = cells_of([run for side in composed for run in side])
        if len(sides) > 1 and (why := why_pointless([cells_of(side)[0] for side in composed])):
            say(console, why)
            return 0
        options = replace(options, ends_after_s=budget_s)
        planned = with_seeds(cells, MIN_SEEDS if chosen.seeds is None else chosen.seeds)
        result = sweep.run(planned, options, console, hosts=hosts, show=partial(show_sweep, options, console))
    result.check_request()
    has_arrived = any(answer.fastest for answer in target_answers(read(result.folder).cells))
    return 1 if result.num_unexpected or not has_arrived else 0
