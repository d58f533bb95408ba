import contextlib
import dataclasses
import io

import pytest
from rich.console import Console

from accelbench.isolation.hosts import Hosts
from accelbench.sweep import run
from fakes import faulty_host, make_options


@pytest.fixture(scope="module")
def shared():
    with Hosts(faulty_host) as running:
        yield running


@pytest.fixture
def swept(shared, project):
    def swept(cells, hosts=None, **options):
        console = Console(file=io.StringIO(), width=200)
        with hosts or contextlib.nullcontext(shared) as running:
            result = run.run(cells, dataclasses.replace(make_options(), **options), console, hosts=running)
        return result, console.file.getvalue()

    return swept
