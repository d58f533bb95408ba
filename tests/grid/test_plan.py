import os
from dataclasses import replace
from pathlib import Path

import pytest

from accelbench.errors import UserError
from accelbench.grid import fingerprint, plan
from accelbench.project import Workplace
from accelbench.schema.cell import MODULE, DataSpec, Engine, Library, ModelSpec, Protocol
from accelbench.schema.measurement import Data
from accelbench.schema.plan_file import joined
from fakes import make_cell

DATA = Data(name="mnist", digest="d" * 64, source="random pixels", stand_in=True)
FINGERPRINT = {"machine": "this", "code": "c0de"}
FINGERPRINTS = dict.fromkeys(Engine, FINGERPRINT)


def identity(cell, data=DATA, environment=FINGERPRINT):
    return fingerprint.identity(cell, data, environment)


def planned(*cells):
    return plan.plan(cells, DATA, FINGERPRINTS)


def test_equal_cells_are_planned_once_and_repeats_are_kept_apart_from_each_other():
    cells = [make_cell(), make_cell(batch_size=8), make_cell(), make_cell(suite="another", timeout_s=1.0)]
    assert [item.cell.batch_size for item in planned(*cells)] == [32, 8]
    cells = [make_cell(batch_size=size, repeat=repeat) for size in (8, 16, 32) for repeat in range(3)]
    order = [(item.cell.batch_size, item.cell.repeat) for item in plan.in_order(planned(*cells))]
    assert order == [(size, repeat) for repeat in range(3) for size in (8, 16, 32)]
    to_target = [make_cell(batch_size=size, seed=s, protocol=Protocol.target) for size in (8, 16) for s in range(2)]
    order = [(item.cell.batch_size, item.cell.seed) for item in plan.in_order(planned(*to_target))]
    assert order == [(8, 0), (16, 0), (8, 1), (16, 1)]


def test_a_plan_has_earlier_cells_first_then_the_order_in_which_cells_were_asked_for():
    cells = [make_cell(batch_size=size, repeat=repeat) for size in (16, 8) for repeat in (1, 0)]
    assert [item.cell for item in planned(*cells)] == cells
    earlier = planned(make_cell(batch_size=4), cells[3])
    resumed = plan.plan(cells, DATA, FINGERPRINTS, earlier)
    assert [item.cell for item in resumed] == [cells[3], *cells[:3]]
    assert [item.cell for item in joined(earlier, resumed)] == [earlier[0].cell, cells[3], *cells[:3]]


def test_data_that_no_network_takes_is_refused_and_beside_others_a_network_is_skipped():
    unfit, own = (make_cell(model=ModelSpec(name="pets_cnn"), data=DataSpec(name=name)) for name in ("mnist", "mine"))
    told = "model=pets_cnn accepts images in colour of at least 22 x 22 pixels, not 28 x 28: use data=cats_vs_dogs"
    for refuse in (lambda: plan.check_request([unfit]), lambda: plan.check_fits([own], (28, 28))):
        with pytest.raises(UserError, match=f"^{told}$"):
            refuse()
    plan.check_request([own])  # what its images are is known once they are prepared
    plan.check_request([unfit, make_cell()])
    assert [item.skip_reason for item in planned(unfit, make_cell())] == [told, None]
    told = r"^data=mine,mnist: .*; run one sweep for each: mine \(pets_cnn\), mnist \(mlp\)$"
    with pytest.raises(UserError, match=told):
        plan.check_request([own, make_cell(), make_cell(seed=1)])


def test_the_identity_holds_what_a_number_depends_on_such_as_code_here_and_weights(tmp_path, monkeypatch):
    path = tmp_path / "mine.safetensors"
    mine = make_cell(model=ModelSpec(name="mlp", weights=str(path)))
    with pytest.raises(UserError, match=f"^model.weights={path}: not readable"):
        identity(mine)
    cell, other_data = make_cell(), replace(DATA, digest="e" * 64)
    other_code = identity(cell, environment={**FINGERPRINT, "code": "0ther"})
    found = {identity(cell), identity(make_cell(seed=1)), identity(cell, other_data), other_code}
    assert identity(make_cell(suite="another")) in found
    for text, age in (("some", 1), ("some", 2), ("more", 3)):
        path.write_text(text)
        os.utime(path, (age, age))
        found.add(identity(mine))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Path("nets.py").write_text(f"{name} = 1")
        found.add(identity(lit()))
    assert len(found) == 8


def lit(target=None):
    model = ModelSpec(name="Lit", library=Library.lightning, network="nets.Lit")
    return make_cell(model=model, data=DataSpec(name=MODULE, target=target))


def test_the_data_of_a_data_module_is_known_by_its_source(here):
    for name in ("nets", "sets"):
        (here / f"{name}.py").write_text(f"NAME = '{name}'")
    place = Workplace.of_project(here)
    of_data, of_module = (plan.data_of([lit(target)], place)[0] for target in ("sets.Data", None))
    assert (of_data.source, of_data.stand_in) == ("sets.Data, which nobody verified", False)
    assert of_module.source == "nets.Lit, which nobody verified"
    assert of_data.digest != of_module.digest
    with pytest.raises(UserError, match="^data.target=nets.Lit,sets.Data: a sweep has one data set"):
        plan.data_of([lit("sets.Data"), lit()], place)
