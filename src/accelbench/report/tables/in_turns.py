"""The processes of a cell that count where it is compared with another one."""

from collections.abc import Sequence

from accelbench.report.read import ReportedCell


def in_turns(typical: ReportedCell, cells: Sequence[ReportedCell]) -> list[ReportedCell]:
    """The processes among `cells` that measured the same as `typical`, this one first.

    If there are confirming ones, only these: others did not run in turns with those of the cell that it is compared
    with.
    """
    key = typical.measured_key
    found = [typical, *(each for each in cells if each is not typical and each.measured_key == key)]
    return [each for each in found if each.is_confirming] or found
