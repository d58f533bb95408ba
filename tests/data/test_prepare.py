import platform
import subprocess
import sys

from accelbench import stages
from accelbench.data.arrays import Obtained, load_split, read_manifest
from accelbench.data.prepare import replaced
from accelbench.project import MANIFEST, Workplace

from .conftest import ask_for


def refused(capsys, name="mnist"):
    assert stages.main(["prepare_data", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_without_a_network_the_stand_in_is_written_with_one_warning(pytestconfig, project, capsys):
    script = pytestconfig.rootpath / "pipelines" / "stage.py"
    words = [sys.executable, script, "prepare_data", "mnist"]
    done = subprocess.run(words, cwd=project, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("warning")) == (0, 1)
    assert "data/mnist is NOT mnist" in done.stderr
    assert "Traceback" not in done.stderr
    folder = project / "data" / "mnist"
    data = read_manifest(folder)
    assert data.stand_in
    assert "a drawn digit for each class" in data.source
    # docs/tracking.md says so, of the packages in requirements.lock; other CPUs may round in another way.
    assert data.digest[:12] == "55a0b74355a1" or platform.machine() != "x86_64"
    assert load_split(folder, "train").images.shape == (1_500, 28, 28)
    assert load_split(folder, "test").labels.shape == (500,)

    before = contents(folder)
    assert stages.main(["prepare_data", "mnist"]) == 0
    assert contents(folder) == before, "another process makes other bytes"
    ask_for("conf")
    capsys.readouterr()
    assert "train-images-idx3-ubyte.gz: not readable" in refused(capsys)
    assert contents(folder) == before, "a failing source leaves the earlier data whole"


def test_a_source_that_is_none_or_an_unknown_set_or_key_says_the_choices(project, capsys):
    for source in ("3", "donwload", "'  '"):
        ask_for(source)
        assert "Choose from: auto, download, or the path of the original files." in refused(capsys)
    sets = "cats_vs_dogs, cifar10, fashion_mnist, mnist, random"
    assert f"data=minst: unknown data. Did you mean mnist? Choose from: {sets}." in refused(capsys, "minst")
    ask_for("auto", key="sorce")
    assert refused(capsys) == "error: data.mnist.sorce: unknown key. Did you mean source? Choose from: source.\n"


def test_takes_the_place_of_the_earlier_folder_also_behind_a_link(tmp_path):
    """And of what a process that was killed left beside it."""
    place = Workplace.of_project(tmp_path)
    earlier, link = place.data / "set", place.data / "link"
    for folder in (earlier, place.data / ".set.new"):
        folder.mkdir(parents=True)
        (folder / "value").write_text("earlier")
    link.symlink_to(earlier)
    for name in ("set", "link"):
        replaced(place, name, lambda folder: Obtained(source=folder.name))
        assert [path.name for path in earlier.iterdir()] == [MANIFEST]
        assert sorted(path.name for path in place.data.iterdir() if path.suffix != ".lock") == ["link", "set"]
    assert link.is_symlink()
