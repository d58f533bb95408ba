import os
import shutil
import zipfile
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from accelbench.data import pictures as module
from accelbench.data.arrays import load_encoded, load_split
from accelbench.data.decode import decode
from accelbench.data.pictures import Folder, Picture, convert, divide, find, open_source
from accelbench.errors import DataError

CLASSES = ("cat", "dog")


def jpeg(seed, side=20):
    content = BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(content, "JPEG")
    return content.getvalue()


@pytest.fixture
def photos(tmp_path):
    """Ten of each class."""
    folder = tmp_path / "photos"
    for number in range(20):
        path = folder / "PetImages" / ("Cat", "Dog")[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number))
    return folder


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def test_pictures_become_arrays_divided_by_file(photos, out):
    obtained = convert(open_source(photos), CLASSES, 16, out)
    assert obtained.refused == []
    train, test = (load_split(out, split) for split in ("train", "test"))
    assert train.images.shape == (16, 16, 16, 3)
    assert np.bincount(train.labels).tolist() == [8, 8]
    assert np.bincount(test.labels).tolist() == [2, 2]
    expected = {decode(path.read_bytes(), 16).tobytes() for path in photos.rglob("*.jpg")}
    assert {image.tobytes() for image in (*train.images, *test.images)} == expected


def test_a_zip_gives_the_same_bytes_as_the_folder(photos, out, tmp_path):
    convert(Folder(photos), CLASSES, 16, out)
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as made:
        for path in sorted(photos.rglob("*.jpg"), reverse=True):
            made.write(path, path.relative_to(photos))
    (tmp_path / "other").mkdir()
    convert(open_source(tmp_path / "photos.zip"), CLASSES, 16, tmp_path / "other")
    for name in os.listdir(out):
        assert (out / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_copy_of_a_test_picture_is_not_trained_on_and_no_bytes_of_it_are_kept(photos, out):
    (photos / "PetImages" / "Cat" / "0.jpg").write_bytes(b"no picture")
    for path in list(photos.rglob("*.jpg")):
        copy = photos / "copy" / path.relative_to(photos)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    obtained = convert(Folder(photos), CLASSES, 16, out)
    assert len([line for line in obtained.refused if "the same bytes as " in line]) == 19
    assert len(obtained.refused) == 21
    kept, images = [], {}
    for split in ("train", "test"):
        encoded, arrays = load_encoded(out, split), load_split(out, split)
        files = [encoded[index] for index in range(len(arrays.labels))]
        assert sum(map(len, files)) == len(encoded.content)
        assert all(np.array_equal(decode(file, 16), image) for file, image in zip(files, arrays.images, strict=True))
        kept += files
        images[split] = {image.tobytes() for image in arrays.images}
    assert not images["train"] & images["test"]
    assert sorted(kept) == sorted({path.read_bytes() for path in photos.rglob("*.jpg")} - {b"no picture"})


def test_what_is_no_picture_is_refused_with_its_reason_and_the_rest_stays_whole(photos, out, tmp_path):
    cats = photos / "PetImages" / "Cat"
    (cats / "0.jpg").write_bytes(b"")
    (cats / "2.jpg").write_bytes(jpeg(2)[:200])
    (cats / "Thumbs.db").write_bytes(b"x")
    (cats / "link.jpg").symlink_to(photos / "nowhere")
    dogs = photos / "PetImages" / "Dog"
    (dogs / "more.jpg").symlink_to(tmp_path)
    os.mkfifo(dogs / "pipe.jpg")
    with (dogs / "huge.jpg").open("wb") as file:
        file.truncate(100 << 20)
    obtained = convert(Folder(photos), CLASSES, 20, out)
    refused = dict(line.removeprefix("PetImages/").split(": ", 1) for line in obtained.refused)
    assert refused.pop("Cat/2.jpg").startswith("damaged")
    assert refused == {
        "Cat/0.jpg": "empty",
        "Cat/Thumbs.db": "its name is not that of a picture",
        "Cat/link.jpg": "not a file, but a folder, a device or a link to nothing",
        "Dog/more.jpg": "not a file, but a folder, a device or a link to nothing",
        "Dog/pipe.jpg": "not a file, but a folder, a device or a link to nothing",
        "Dog/huge.jpg": "too large (104,857,600 bytes)",
    }
    num = [len(load_split(out, split).labels) for split in ("train", "test")]
    assert sum(num) == 18
    assert [len(load_split(out, split).images) for split in ("train", "test")] == num


LAYOUTS = {  # a name -> its label and split, or why it is left out
    "of_folders": {"PetImages/Cat/0.jpg": (0, None), "x\\CATS\\1.JPEG": (0, None), "dogs/dog.2.jpg": (1, None)},
    "of_names": {"train/cat.0.jpg": (0, None), "train/dog.0.Png": (1, None), "cats/dogs/cat.2.jpg": (1, None)},
    "of_kaggle": {
        "train/cat.0.jpg": (0, None),
        "train/dog.0.jpg": (1, None),
        "test/1.jpg": "neither its folder nor its name is a class (cat, dog)",  # has no label
    },
    "of_splits": {
        "train/cats/1.jpg": (0, "train"),
        "test/cats/2.jpg": (0, "test"),
        "validation/dogs/3.jpg": (1, "test"),
        "odd/PetImages/Cat/3.jpg": "in neither the training nor the test folder",
        "test1/17.jpg": "neither its folder nor its name is a class (cat, dog)",  # Kaggle's, which have no labels
        "readme[1].txt": "its name is not that of a picture",
        "__MACOSX/Cat/._0.jpg": "its name is not that of a picture",  # macOS adds these to archives
    },
}


@pytest.mark.parametrize("expected", LAYOUTS.values(), ids=LAYOUTS)
def test_the_usual_layouts_are_understood(expected):
    _, pictures, surplus = find(expected, CLASSES)
    assert {picture.name: (picture.label, picture.split) for picture in pictures} | surplus == expected


def test_a_class_without_whole_pictures_stops_the_stage_and_says_why(photos, out):
    for path in (photos / "PetImages" / "Dog").iterdir():
        path.write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"no readable pictures of dog for train .*:\n  .*: no picture"):
        convert(Folder(photos), CLASSES, 16, out)
    shutil.rmtree(photos / "PetImages" / "Dog")
    with pytest.raises(DataError, match=r"no readable pictures of dog for train \(a class needs at least 3 pictures"):
        convert(Folder(photos), CLASSES, 16, out)


def test_a_division_is_disjoint_whole_stratified_and_stable_under_the_files_order(monkeypatch):
    split_of = [None] * 6 + ["train", "test"]
    pictures = [Picture(f"{label}/{i}", label, split_of[i % 8]) for label in range(3) for i in range(10 * label + 7)]
    splits = divide(pictures)
    names = [picture.name for chosen in splits.values() for picture in chosen]
    assert sorted(names) == sorted(picture.name for picture in pictures)
    for split, chosen in splits.items():
        assert all(picture.split in (None, split) for picture in chosen)
    for label in range(3):
        undecided = [p for p in pictures if p.label == label and p.split is None]
        num_test = sum(p.label == label and p.split is None for p in splits["test"])
        assert num_test == round(0.2 * len(undecided))
    assert divide(pictures[::-1]) == splits
    monkeypatch.setattr(module, "SEED", 4)
    assert divide(pictures) != splits
