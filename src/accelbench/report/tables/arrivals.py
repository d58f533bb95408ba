"""How long each setting trains to a target."""

from accelbench.answers.arrivals import Setting, TargetAnswer
from accelbench.report.tables.table import Column, Entry, Table, number, tabulate_known

NOTE = (
    "Seconds: the median from the start of the process to the end of the evaluation that reached the target, with its "
    "exact 95 % interval; not before: the end of the evaluation before that. A seed that did not arrive counts as "
    "longer than all. The other figures are medians, too. Of all: the seeds that would arrive. Expected: another seed "
    "is begun wherever one does not. MLPerf's clock begins with the data, AlgoPerf's counts training alone, and "
    "airbench's training without compiling, and one evaluation."
)


def _column(heading: str, name: str) -> Column[Setting]:
    return Column(heading, lambda setting: setting.number(name), number)


COLUMNS: list[Column[Setting]] = [
    Column("setting", lambda setting: setting.name),
    Column("arrived", lambda setting: setting.arrived_text),
    Column("of all (%)", lambda setting: "{:.0f} to {:.0f}".format(*(100 * end for end in setting.share))),
    Column("seconds", lambda setting: Entry(setting.median_text, setting.number("target_s"))),
    Column("95 % interval", lambda setting: setting.interval_text),
    _column("not before (s)", "target_low_s"),
    Column("expected (s)", lambda setting: setting.expected_s, number),
    _column("epochs", "target_epochs"),
    _column("MLPerf (s)", "target_mlperf_s"),
    _column("AlgoPerf (s)", "target_train_s"),
    _column("airbench (s)", "target_airbench_s"),
    _column("compile (s)", "target_compile_s"),
    _column("J", "target_j"),
    _column("cost", "target_cost"),
    Column("on the test set", lambda setting: setting.number("target_tested"), number),
    Column("epochs against fp32", lambda setting: setting.refused or setting.guard),
]


def table(answer: TargetAnswer) -> Table | None:
    """A line for each setting, the fastest first, with how it compares with that one."""
    leads = {lead.second.name: f"{lead.ratio_text} ({lead.how_sure}); p {lead.found.p:.2g}" for lead in answer.leads}
    against = Column[Setting]("the fastest is", lambda setting: leads.get(setting.name))
    return tabulate_known(
        "Each setting, with its clocks", [*COLUMNS[:5], against, *COLUMNS[5:]], answer.settings, [NOTE]
    )
