import contextlib
import dataclasses
import io

import pytest
from rich.console import Console

from accelbench.isolation.hosts import Hosts
from accelbench.sweep import run
from fakes import faulty_host, give_ceilings, make_options, make_project


@pytest.fixture(scope="module")
def shared():
    with Hosts(faulty_host) as running:
        yield running


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project, which is the current folder, on a machine whose CPU was probed."""
    make_project(tmp_path)
    give_ceilings(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def swept(shared, project):
    def swept(cells, hosts=None, **options):
        console = Console(file=io.StringIO(), width=200)
        with hosts or contextlib.nullcontext(shared) as running:
            result = run.run(cells, dataclasses.replace(make_options(), **options), console, hosts=running)
        return result, console.file.getvalue()

    return swept
