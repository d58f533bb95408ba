import pytest

from accelbench.errors import UserError
from accelbench.grid.prepare import data_name
from fakes import make_cell


def test_a_sweep_has_one_data_set():
    assert data_name([make_cell(), make_cell(batch_size=8)]) == make_cell().data.name
    with pytest.raises(UserError, match="a sweep has one data set"):
        data_name([])
