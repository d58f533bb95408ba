"""Random images in the shape and precision of a cell's model. The cell draws them when it runs; no file is prepared."""

from pathlib import Path

from accelbench.data.arrays import DRAWN
from accelbench.data.obtain import DataSet, Obtained, Target


class Random(DataSet):
    """A data set without files."""

    def obtain(self, name: str, source: str, root: Path, target: Target) -> Obtained:
        return Obtained(source=DRAWN)


DATA_SET = Random()
