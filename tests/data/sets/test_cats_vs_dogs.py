import numpy as np

from accelbench.data.arrays import load_encoded, load_split
from accelbench.data.obtain import Target
from accelbench.data.sets import cats_vs_dogs
from accelbench.data.sets.cats_vs_dogs import DATA_SET


def counts(target):
    return {split: np.bincount(load_split(target.folder, split).labels).tolist() for split in ("train", "test")}


def test_every_odd_file_has_its_expected_fate(shared, project, target):
    obtained = DATA_SET.obtain("cats_vs_dogs", str(shared("cats_vs_dogs") / "odd"), project, target)
    assert obtained.refused == ["PetImages/Cat/666.jpg: empty"]
    assert sum(sum(split) for split in counts(target).values()) == 19


def test_a_part_of_the_photographs_is_marked_as_one(shared, project, target):
    part = Target(target.folder, {"image_size": 16, "max_images": 100})
    obtained = DATA_SET.obtain("cats_vs_dogs", str(shared("cats_vs_dogs") / "train"), project, part)
    assert obtained.source == "100 of 1,200 pictures of cats vs dogs, from train"
    assert obtained.stand_in_reason is not None
    assert sum(counts(target)["train"]) == 80
    assert sum(counts(target)["test"]) == 20


def test_the_whole_folder_has_splits_of_its_own_and_odd_lies_outside_them(shared, project, target):
    obtained = DATA_SET.obtain("cats_vs_dogs", str(shared("cats_vs_dogs")), project, target)
    assert counts(target) == {"train": [600, 600], "test": [200, 200]}
    assert len(obtained.refused) == 20
    assert all("in neither the training nor the test folder" in line for line in obtained.refused)


def test_without_a_network_drawn_digits_stand_in_and_say_so(project, target, monkeypatch):
    monkeypatch.setattr(cats_vs_dogs, "NUM_DRAWN", 40)
    obtained = DATA_SET.obtain("cats_vs_dogs", "auto", project, target)
    assert obtained.source == "stand-in for cats vs dogs: a drawn digit for each class, 40 pictures"
    assert "kagglecatsanddogs_5340.zip" in obtained.stand_in_reason or "download failed" in obtained.stand_in_reason
    assert counts(target) == {"train": [16, 16], "test": [4, 4]}
    assert load_split(target.folder, "train").images.shape == (32, 64, 64, 3)
    assert load_encoded(target.folder, "train")[0][:2] == b"\xff\xd8"
