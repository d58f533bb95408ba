import sys

import pytest

from accelbench.errors import UserError
from accelbench.grid.own_code import check_own_code
from accelbench.schema.vocab import Library
from accelbench.schema.workload import ModelSpec
from environments import make_environment
from fakes import make_cell

NETS = """
import loud_and_not_there
from torch import nn
from torch.nn import Linear as Line

class Network(nn.Module):
    pass

def make(): return Network()

if True:
    def make_too(): return Network()

Small = Network
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_nets.py").write_text(NETS)
    (tmp_path / "mine/deep").mkdir(parents=True)
    (tmp_path / "mine/__init__.py").write_text("from mine.nets import Net\n")
    (tmp_path / "mine/nets.py").write_text("raise RuntimeError('imported')\nclass Net: pass\n")
    (tmp_path / "mine/deep/nets.py").write_text("Net = 1\n")
    (tmp_path / "space").mkdir()
    (tmp_path / "space/nets.py").write_text("class Net: pass\n")
    return tmp_path


def check(target, python=None):
    check_own_code([make_cell(model=ModelSpec(name="own", library=Library.custom, network=target), python=python)])


@pytest.mark.parametrize(
    "target",
    [
        *(f"my_nets.{name}" for name in ("Network", "make", "make_too", "Small", "Line")),
        *("mine.Net", "mine.nets.Net", "mine.deep.nets.Net", "space.nets.Net"),
        *("torch.nn.Linear", "torch.optim.AdamW", "torchvision.models.resnet18"),
    ],
)
def test_what_is_there_is_found_and_nothing_is_imported(folder, target):
    check(target)
    check(target, sys.executable)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("foo.Bar", "no package or module foo in this folder or where Python looks"),
        ("my_nets.Netwerk", "the module my_nets has no Netwerk"),
        ("my_nets.deep.Net", "the module my_nets has no deep"),
        ("mine.nest.Net", "the module mine has no nest"),
        ("mine.deep.nets.Nett", "the module nets has no Nett"),
    ],
)
def test_what_is_missing_is_named(folder, target, told):
    with pytest.raises(UserError) as raised:
        check(target)
    assert str(raised.value) == f"model.target={target}: {told}"


@pytest.mark.parametrize(
    "text",
    [
        *("from torch.nn import *", "globals()['Ne' + 't'] = 1", "def __getattr__(name): return 1"),
        *("import sys\nsys.modules[__name__] = object()", "exec('N' 'et = 1')"),
    ],
)
def test_a_module_that_may_define_it_is_not_accused(folder, text):
    (folder / "dynamic.py").write_text(text)
    check("dynamic.Net")
    (folder / "mine/__init__.py").write_text("import sys\nsys.modules['mine.made'] = sys\n")
    check("mine.made.Net")


def test_a_module_that_is_no_python_is_named(folder):
    (folder / "broken.py").write_text("class Net:\n")
    with pytest.raises(UserError, match=r"model.target=broken.Net: can't be imported \(expected an .*broken.py"):
        check("broken.Net")


@pytest.mark.parametrize("place", ["lib/site-packages", "to_edit"])
def test_what_is_installed_here_is_refused_where_another_interpreter_would_run_its_own_copy(folder, monkeypatch, place):
    (folder / place).mkdir(parents=True)
    (folder / place / "both.py").write_text("class Net: pass\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder / place)])
    check("both.Net")
    with pytest.raises(UserError, match=r"^model.target=both.Net: python=/new would run its own copy of both, if any"):
        check("both.Net", "/new")
    (folder / "both.py").write_text("class Net: pass\n")
    check("both.Net", "/new")


def test_a_folder_without_init_is_refused_where_another_interpreter_has_a_package_of_its_name(folder):
    there = str(make_environment(folder / "new", space="1.0"))
    with pytest.raises(UserError, match=r"would run its own copy of space.* a folder of code needs an __init__.py"):
        check("space.nets.Net", there)
    (folder / "space/__init__.py").touch()
    check("space.nets.Net", there)
