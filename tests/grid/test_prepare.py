import pytest

from accelbench.errors import UserError
from accelbench.grid.plan import data_name, data_of
from accelbench.project import Workplace
from accelbench.schema.vocab import MODULE, Library
from accelbench.schema.workload import DataSpec, ModelSpec
from fakes import make_cell


def test_a_sweep_has_one_data_set():
    assert data_name([make_cell(), make_cell(batch_size=8)]) == make_cell().data.name
    with pytest.raises(UserError, match="a sweep has one data set"):
        data_name([])


def lit(path, target):
    return make_cell(
        model=ModelSpec(name="Lit", library=Library.lightning, network=path), data=DataSpec(name=MODULE, target=target)
    )


def test_the_data_of_a_data_module_is_known_by_its_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = Workplace.of_project(tmp_path)
    for name in ("nets", "sets"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"NAME = '{name}'")
    of_data, of_module = (data_of([lit("nets.Lit", target)], here)[0] for target in ("sets.Data", None))
    assert (of_data.source, of_data.stand_in) == ("sets.Data, which nobody verified", False)
    assert of_module.source == "nets.Lit, which nobody verified"
    assert of_data.digest != of_module.digest
    with pytest.raises(UserError, match="^data.target=nets.Lit,sets.Data: a sweep has one data set"):
        data_of([lit("nets.Lit", "sets.Data"), lit("nets.Lit", None)], here)
