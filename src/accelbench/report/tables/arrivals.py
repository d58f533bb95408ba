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


COLUMNS: list[Column[Setting]] = [
    Column("setting", lambda setting: setting.name),
    Column("arrived", lambda setting: setting.arrived_text),
    Column("of all (%)", lambda setting: "{:.0f} to {:.0f}".format(*(100 * end for end in setting.share))),
    Column("seconds", lambda setting: Entry(setting.median_text, setting.number("target_s"))),
    Column("95 % interval", lambda setting: setting.interval_text),
    Column("not before (s)", "target_low_s", number),
    Column("expected (s)", lambda setting: setting.expected_s, number),
    Column("epochs", "target_epochs", number),
    Column("MLPerf (s)", "target_mlperf_s", number),
    Column("AlgoPerf (s)", "target_train_s", number),
    Column("airbench (s)", "target_airbench_s", number),
    Column("compile (s)", "target_compile_s", number),
    Column("J", "target_j", number),
    Column("cost", "target_cost", number),
    Column("on the test set", "target_tested", number),
    Column("epochs against fp32", lambda setting: setting.refused or setting.guard),
]


def table(answer: TargetAnswer) -> Table | None:
    """A line for each setting, the fastest first, with how it compares with that one."""
    leads = {lead.second.name: f"{lead.ratio_text} ({lead.how_sure}); p {lead.found.p:.2g}" for lead in answer.leads}
    against = Column[Setting]("the fastest is", lambda setting: leads.get(setting.name))
    return tabulate_known(
        "Each setting, with its clocks", [*COLUMNS[:5], against, *COLUMNS[5:]], answer.settings, [NOTE]
    )
