import re
import sys
from pathlib import Path

import pytest

from accelbench.errors import UserError
from accelbench.grid.own_code import check_own_code, source_digest
from accelbench.schema.cell import Library, ModelSpec
from fakes import make_cell, make_environment, write_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "my_nets.py": "import loud_and_not_there\nNet = loud_and_not_there.Net\n",
        "mine/__init__.py": "from mine.nets import Net\n",
        "mine/nets.py": "raise RuntimeError('imported')\nclass Net: pass\n",
        "mine/deep/nets.py": "Net = 1\n",
        "space/nets.py": "class Net: pass\n",
    }
    write_files(tmp_path, files)
    return tmp_path


def check(target, python=None):
    check_own_code([make_cell(model=ModelSpec(name="own", library=Library.custom, network=target), python=python)])


def test_a_name_is_found_or_refused_without_an_import(folder):
    for place in ("my_nets", "mine", "mine.nets", "mine.deep.nets", "space.nets"):
        for python in (None, sys.executable):
            check(f"{place}.Net", python)
    check("torch.nn.Linear", sys.executable)
    for text in ("from loud import *", "globals()['Ne' + 't'] = 1", "def __getattr__(name): ..."):
        (folder / "my_nets.py").write_text(text)  # it does not name all that it has
        check("my_nets.Net")
    (folder / "my_nets.py").write_text("import loud_and_not_there")
    for target, reason in (
        *(("mine.nets.Nett", "mine.nets has no Nett. Did you mean Net?"), ("mine.netz.Net", "there is no module mine")),
        ("my_nets.Other", "my_nets has no Other."),
    ):
        with pytest.raises(UserError, match=f"^model.target={target}: {re.escape(reason)}"):
            check(target)


@pytest.mark.parametrize("place", ["lib/site-packages", "to_edit"])
def test_what_is_installed_here_is_refused_where_another_interpreter_would_run_its_own_copy(folder, monkeypatch, place):
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder / place)])
    write_files(folder, {f"{place}/both.py": "class Net: pass\n"})
    there = str(make_environment(folder / "new", space="1.0"))  # it has a package of the name of a folder
    check("both.Net")
    for module, mended in (("both", "both.py"), ("space.nets", "space/__init__.py")):
        name = module.partition(".")[0]
        with pytest.raises(UserError, match=f"target={module}.Net: python={there} does not find this copy of {name}: "):
            check(f"{module}.Net", there)
        write_files(folder, {mended: "class Net: pass\n"})
        check(f"{module}.Net", there)


def digest_of(target):
    source_digest.cache_clear()
    return source_digest("model.target", target, Path.cwd())


def test_the_digest_changes_with_any_file_that_may_be_imported_and_nothing_is(here):
    files = {
        "mine/__init__.py": "raise RuntimeError('imported')",
        "mine/nets.py": "import os, random; import lone\nfrom . import layers\n    from helpers.deep import others",
        "mine/others.py": "import re, \\\n  another as a, \\\n  missing\ntry: from guarded import Net",
        "helpers/deep.py": "import os.path as path, mine.nets",
        **dict.fromkeys(("lone.py", "another.py", "guarded.py", "others.py", "random.py"), ""),
    }
    write_files(here, files)
    before = digest_of("mine.nets.Net")
    changing = set()
    for name, text in files.items():
        write_files(here, {name: f"{text}\na = 1"})
        if digest_of("mine.nets.Net") != before:
            changing.add(name)
        write_files(here, {name: text})
    assert digest_of("mine.nets.Net") == before
    assert changing == files.keys() - {"others.py", "random.py"}
    write_files(here, {"lone.py": "import importlib\nimportlib.import_module('oth' + 'ers')"})
    before = digest_of("mine.nets.Net")
    write_files(here, {"others.py": "a = 1"})
    assert digest_of("mine.nets.Net") != before
