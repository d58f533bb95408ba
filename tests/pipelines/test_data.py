"""The data stage under real DVC, in a copy of the project."""

import json
import shutil
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from .test_pipeline import Project, copy_project

PARAMS = """\
profile: quick
retry: none
data:
  cats_vs_dogs: {source: photos, image_size: 16}
  mnist: {source: auto}
suites:
  pets: {data: cats_vs_dogs, model: pets_cnn}
"""
pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]  # `make repro` prepares its data in test_pipeline.py


def jpeg(seed):
    content = BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(content, "JPEG")
    return content.getvalue()


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = Project(copy_project(tmp_path_factory.mktemp("project")))
    (made.root / "params.yaml").write_text(PARAMS)
    for number in range(20):
        path = made.root / "photos" / ("cats", "dogs")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number))
    made.git("init", "-q")
    made.git("add", "-A")
    made.git("commit", "-qm", "start")
    return made


def dvc(project, *words):
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *words], cwd=project.root, env=project.env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contents(project):
    return {path.name: path.read_bytes() for path in (project.root / "data" / "cats_vs_dogs").iterdir()}


def test_one_set_is_prepared_alone_and_not_again_until_its_source_changes(project):
    output = dvc(project, "repro", "data@cats_vs_dogs")
    assert "data/cats_vs_dogs: 16 train, 4 test images" in output
    assert not (project.root / "data" / "mnist").exists()
    assert "Stage 'data@cats_vs_dogs' didn't change, skipping" in dvc(project, "repro", "data@cats_vs_dogs")
    (project.root / "photos" / "cats" / "odd.jpg").write_bytes(b"")
    assert "files refused: 1 (see manifest.json)" in dvc(project, "repro", "data@cats_vs_dogs")
    assert json.loads(contents(project)["manifest.json"])["refused"] == ["cats/odd.jpg: empty"]


def test_a_prepared_set_goes_to_a_remote_and_comes_back_the_same(project, tmp_path):
    before = contents(project)
    dvc(project, "remote", "add", "--default", "store", str(tmp_path / "store"))
    dvc(project, "push", "data@cats_vs_dogs")
    shutil.rmtree(project.root / "data" / "cats_vs_dogs")
    shutil.rmtree(project.root / ".dvc" / "cache")
    dvc(project, "pull", "data@cats_vs_dogs")
    assert contents(project) == before
