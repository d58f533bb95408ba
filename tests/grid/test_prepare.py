import pytest

from accelbench.errors import UserError
from accelbench.grid.prepare import data_name, estimates_s
from accelbench.schema.vocab import Precision, Protocol
from fakes import make_cell


def test_a_skipped_cell_takes_no_time(tmp_path):
    skipped, unknown = make_cell(precision=Precision.tf32, protocol=Protocol.fit), make_cell(protocol=Protocol.fit)
    assert estimates_s(tmp_path, {cell.id: cell for cell in (skipped, unknown)}) == {skipped.id: 0.0, unknown.id: None}


def test_a_sweep_has_one_data_set():
    assert data_name([make_cell(), make_cell(batch_size=8)]) == make_cell().data.name
    with pytest.raises(UserError, match="a sweep has one data set"):
        data_name([])
