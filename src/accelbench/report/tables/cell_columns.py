"""The settings of a cell, as the columns that many tables begin with."""

from accelbench.answers.words import options_text
from accelbench.report.read import ReportedCell
from accelbench.report.tables.table import Column, count, word

SETTINGS: list[Column[ReportedCell]] = [
    Column("network", lambda reported: word(reported.cell.model.name)),
    Column("mode", lambda reported: word(reported.cell.mode)),
    Column("device", lambda reported: word(reported.cell.device)),
    Column("precision", lambda reported: word(reported.cell.precision)),
    Column("batch", lambda reported: count(reported.cell.batch_size)),
    Column("options", lambda reported: word(options_text(reported.row))),
]
