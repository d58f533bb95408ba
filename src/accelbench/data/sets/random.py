"""Random images in the shape and precision of a cell's model. The cell draws them when it runs; no file is prepared."""

from accelbench.data.obtain import DataSet

DATA_SET = DataSet()
