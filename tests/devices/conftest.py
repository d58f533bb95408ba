import pytest

from accelbench.devices import proc


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A function that writes files of the machine, such as those in /proc, instead of the real ones."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")

    monkeypatch.setattr(proc, "ROOT", tmp_path)
    return write
