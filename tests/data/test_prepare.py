import json
import subprocess
import sys

import numpy as np
import pytest

from accelbench.data.arrays import load_split
from accelbench.data.manifest import read_manifest
from accelbench.data.prepare import main, normalisation
from accelbench.settings.params import data_settings


def run(pytestconfig, project, *args):
    script = pytestconfig.rootpath / "pipelines" / "prepare_data.py"
    return subprocess.run([sys.executable, script, *args], cwd=project, capture_output=True, text=True)


def refused(capsys, name="mnist"):
    assert main(data_settings, [name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    return captured.err


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_without_a_network_the_stand_in_is_written_with_one_warning(pytestconfig, project):
    done = run(pytestconfig, project, "mnist")
    assert done.returncode == 0
    assert done.stderr.count("warning") == 1
    assert "data/mnist is NOT mnist" in done.stderr
    assert "Traceback" not in done.stderr
    folder = project / "data" / "mnist"
    data = read_manifest(folder)
    assert data.stand_in
    assert "scikit-learn's digits" in data.source
    assert load_split(folder, "train").images.shape == (12_000, 28, 28)
    assert load_split(folder, "test").labels.shape == (2_000,)

    before = contents(folder)
    assert main(data_settings, ["mnist"]) == 0
    assert contents(folder) == before, "another process makes other bytes"


def test_the_script_exits_2_without_a_traceback(pytestconfig, project):
    (project / "params.yaml").write_text("suites: {}\ndata: {mnist: {sorce: auto}}")
    done = run(pytestconfig, project, "mnist")
    assert done.returncode == 2
    assert done.stderr == "error: data.mnist: unknown key sorce. Choose from: source.\n"
    assert done.stdout == ""


def test_a_misspelt_source_says_the_choices(project, capsys, ask_for):
    ask_for("donwload")
    message = refused(capsys)
    assert "data.mnist.source=donwload: " in message
    assert "Choose from: auto, download, or the path of the original files." in message


def test_the_script_runs_the_code_of_its_own_checkout(pytestconfig, project):
    """A copy of the script finds the package in the src/ beside it, not the installed one."""
    package = project / "src" / "accelbench" / "stages"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "prepare_data.py").write_text("def main():\n    print('own code')\n")
    script = project / "pipelines" / "prepare_data.py"
    script.parent.mkdir()
    script.write_text((pytestconfig.rootpath / "pipelines" / "prepare_data.py").read_text())
    done = subprocess.run([sys.executable, script], cwd=project, capture_output=True, text=True, check=True)
    assert done.stdout == "own code\n"


def test_real_mnist(project, mnist_raw, capsys, ask_for):
    ask_for(str(mnist_raw))
    assert main(data_settings, ["mnist"]) == 0
    folder = project / "data" / "mnist"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert list(manifest["counts"]["train"].values()) == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]  # fmt: skip
    assert list(manifest["counts"]["test"].values()) == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert manifest["normalisation"]["mean"] == [pytest.approx(0.1307, abs=5e-5)]
    assert manifest["normalisation"]["std"] == [pytest.approx(0.3081, abs=5e-5)]
    assert manifest["stand_in"] is False
    assert manifest["source"] == "MNIST, from raw"
    assert load_split(folder, "train").images.shape == (60_000, 28, 28)
    assert load_split(folder, "test").labels[:5].tolist() == [7, 2, 1, 0, 4]
    captured = capsys.readouterr()
    assert "60,000 train, 10,000 test images" in captured.out
    assert captured.err == ""


def test_a_failing_source_leaves_the_earlier_data_whole(project, capsys, ask_for):
    assert main(data_settings, ["mnist"]) == 0
    before = contents(project / "data" / "mnist")
    capsys.readouterr()
    ask_for("conf")
    message = refused(capsys)
    assert message.count("missing") == 4
    assert contents(project / "data" / "mnist") == before


@pytest.mark.parametrize("source", ["3", "", "null", "[auto]", "{quick: auto}", "'  '"])
def test_a_source_that_is_no_word_says_the_choices(project, capsys, source, ask_for):
    ask_for(source)
    assert "Choose from: auto, download, or the path of the original files." in refused(capsys)


def test_an_unknown_set_says_the_choices(project, capsys):
    assert "data=minst: unknown data. Choose from: cats_vs_dogs, cifar10, fashion_mnist, mnist, random." in refused(
        capsys, "minst"
    )


def test_a_set_that_nothing_prepares_says_the_choices(project, capsys):
    (project / "params.yaml").write_text("suites: {}\ndata: {minst: {source: auto}}")
    assert "data=minst: unknown data. Choose from: " in refused(capsys, "minst")


def test_outside_a_project_is_a_clear_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "no params.yaml with suites" in refused(capsys)


def test_in_an_experiment_s_checkout_folders_are_the_project_s_own(
    project, small, monkeypatch, tmp_path, capsys, ask_for
):
    """DVC runs a queued experiment in a temporary checkout and names the project in DVC_ROOT."""
    ask_for("inputs")
    checkout = tmp_path / "temporary"
    project.rename(checkout)
    (project / "inputs").mkdir(parents=True)
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("DVC_ROOT", str(project))
    assert f"{project}/inputs does not hold" in refused(capsys)


def test_normalisation_of_grey_and_colour():
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
    colour = normalisation(images)
    assert colour["mean"] == pytest.approx((images / 255).mean(axis=(0, 1, 2)))
    assert colour["std"] == pytest.approx((images / 255).std(axis=(0, 1, 2)))
    grey = normalisation(images[..., 0])
    assert grey == {"mean": colour["mean"][:1], "std": colour["std"][:1]}
