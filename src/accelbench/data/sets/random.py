"""Random images: drawn when a cell runs, in the shape of its model and in its precision; nothing is prepared."""

from pathlib import Path

from accelbench.data.arrays import DRAWN
from accelbench.data.obtain import DataSet, Obtained, Target


class Random(DataSet):
    """No files."""

    def obtain(self, name: str, source: str, root: Path, target: Target) -> Obtained:
        return Obtained(source=DRAWN)


DATA_SET = Random()
