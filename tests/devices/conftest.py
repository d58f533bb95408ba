from functools import partial

import pytest

from accelbench.devices import proc
from fakes import write_files


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A function that writes files of the machine, such as those in /proc, instead of the real ones."""
    monkeypatch.setattr(proc, "ROOT", tmp_path)
    return partial(write_files, tmp_path)
