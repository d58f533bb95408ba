import os
import shutil
import zipfile

import numpy as np
import pytest
from PIL import Image

from accelbench.data import pictures as module
from accelbench.data.arrays import load_encoded, load_split
from accelbench.data.pictures import Picture, convert, decode, divide, find, unpack
from accelbench.errors import DataError, RefusedError

from .conftest import counts, encoded, write

CLASSES = ("cat", "dog")


def jpeg(seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    return encoded(Image.fromarray(pixels), "JPEG")


@pytest.fixture
def photos(tmp_path):
    for number in range(20):
        write(tmp_path / "photos" / "PetImages" / ("Cat", "Dog")[number % 2] / f"{number}.jpg", jpeg(number))
    return tmp_path / "photos"


def test_pictures_of_a_folder_or_a_zip_become_arrays_divided_by_file(photos, out, tmp_path):
    obtained = convert(photos, CLASSES, 16, out)
    assert obtained.refused == []
    train, test = (load_split(out, split) for split in ("train", "test"))
    assert train.images.shape == (16, 16, 16, 3)
    assert counts(out) == {"train": [8, 8], "test": [2, 2]}
    expected = {decode(path.read_bytes(), 16).tobytes() for path in photos.rglob("*.jpg")}
    assert {image.tobytes() for image in (*train.images, *test.images)} == expected
    shutil.make_archive(str(tmp_path / "photos"), "zip", photos)
    (tmp_path / "other").mkdir()
    convert(tmp_path / "photos.zip", CLASSES, 16, tmp_path / "other")
    for name in os.listdir(out):
        assert (out / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_copy_of_a_test_picture_is_not_trained_on_and_no_bytes_of_it_are_kept(photos, out):
    write(photos / "PetImages" / "Cat" / "0.jpg", b"no picture")
    shutil.copytree(photos / "PetImages", photos / "copy")
    obtained = convert(photos, CLASSES, 16, out)
    assert len([line for line in obtained.refused if "the same bytes as " in line]) == 19
    assert len(obtained.refused) == 21
    kept, images = [], {}
    for split in ("train", "test"):
        files, arrays = load_encoded(out, split), load_split(out, split)
        files_of_split = [files[index] for index in range(len(arrays.labels))]
        assert sum(map(len, files_of_split)) == len(files.content)
        assert all(map(np.array_equal, [decode(file, 16) for file in files_of_split], arrays.images))
        kept += files_of_split
        images[split] = {image.tobytes() for image in arrays.images}
    assert not images["train"] & images["test"]
    assert sorted(kept) == sorted({path.read_bytes() for path in photos.rglob("*.jpg")} - {b"no picture"})


def test_what_is_no_picture_is_refused_with_its_reason_and_the_rest_stays_whole(photos, out, tmp_path):
    cats, dogs = photos / "PetImages" / "Cat", photos / "PetImages" / "Dog"
    write(cats / "0.jpg", b"")
    write(cats / "2.jpg", jpeg(2)[:200])
    write(cats / "4.jpg", encoded(photo(), "EPS"))  # would start a program
    write(cats / "6.jpg", encoded(Image.fromarray(np.zeros((9, 9), np.uint16))))
    write(cats / "8.jpg", encoded(Image.new("1", (10_000, 5_001))))
    write(cats / "Thumbs.db", b"x")
    (cats / "link.jpg").symlink_to(photos / "nowhere")
    (dogs / "more.jpg").symlink_to(tmp_path)
    os.mkfifo(dogs / "pipe.jpg")
    with (dogs / "huge.jpg").open("wb") as file:
        file.truncate(100 << 20)
    obtained = convert(photos, CLASSES, 20, out)
    refused = dict(line.removeprefix("PetImages/").split(": ", 1) for line in obtained.refused)
    assert "runcated" in refused.pop("Cat/2.jpg")
    no_files = ["Cat/link.jpg", "Dog/more.jpg", "Dog/pipe.jpg", "Dog/huge.jpg"]
    assert refused == dict.fromkeys(no_files, "not a file of at most 67,108,864 bytes") | {
        "Cat/0.jpg": "no picture, or of an unknown format",
        "Cat/4.jpg": "no picture, or of an unknown format",
        "Cat/6.jpg": "not usable (16 bits a pixel: Pillow would clip larger values at 255)",
        "Cat/8.jpg": "not usable (too large: 10000 x 5001 pixels)",
        "Cat/Thumbs.db": "its name is not that of a picture",
    }
    num = [len(load_split(out, split).labels) for split in ("train", "test")]
    assert sum(num) == 15
    assert [len(load_split(out, split).images) for split in ("train", "test")] == num


NO_CLASS = "neither its folder nor its name is a class (cat, dog)"  # as of Kaggle's test set, without labels
NO_NAME = "its name is not that of a picture"
LAYOUTS = {  # a name -> its label and split, or why it is left out
    "of_folders": {"PetImages/Cat/0.jpg": (0, None), "x\\CATS\\1.JPEG": (0, None), "dogs/dog.2.jpg": (1, None)},
    "of_names": {"train/cat.0.jpg": (0, None), "train/dog.0.Png": (1, None), "cats/dogs/cat.2.jpg": (1, None)},
    "of_kaggle": {"train/cat.0.jpg": (0, None), "train/dog.0.jpg": (1, None), "test/1.jpg": NO_CLASS},
    "of_splits": {
        "train/cats/1.jpg": (0, "train"),
        "test/cats/2.jpg": (0, "test"),
        "validation/dogs/3.jpg": (1, "test"),
        "odd/PetImages/Cat/3.jpg": "in neither the training nor the test folder",
        "test1/17.jpg": NO_CLASS,
        "readme[1].txt": NO_NAME,
        "__MACOSX/Cat/._0.jpg": NO_NAME,  # macOS adds these to archives
    },
}


@pytest.mark.parametrize("expected", LAYOUTS.values(), ids=LAYOUTS)
def test_the_usual_layouts_are_understood(expected):
    _, pictures, surplus = find(expected, CLASSES)
    assert {picture.name: (picture.label, picture.split) for picture in pictures} | surplus == expected


def test_a_class_without_whole_pictures_stops_the_stage_and_says_why(photos, out):
    for path in (photos / "PetImages" / "Dog").iterdir():
        path.write_bytes(b"<html>")
    message = r"no readable pictures of dog for test \(a class needs at least 3 pictures.*\n  .*: no picture"
    with pytest.raises(DataError, match=message):
        convert(photos, CLASSES, 16, out)


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


def photo():
    """Smooth colours, so that JPEG changes little."""
    x, y = np.meshgrid(np.linspace(0, 255, 90), np.linspace(0, 255, 70))
    return Image.fromarray(np.stack([x, y, 255 - x], -1).astype(np.uint8))


def test_every_usual_format_is_read_with_white_transparency_its_orientation_and_broken_exif():
    for kind in ("JPEG", "GIF", "BMP", "PNG", "WEBP"):
        pixels = decode(encoded(photo(), kind), 32).astype(int)
        assert pixels.shape == (32, 32, 3)
        assert np.abs(pixels - decode(encoded(photo()), 32)).mean() < 12
    assert decode(encoded(Image.new("RGBA", (8, 8), (200, 0, 0, 0))), 8).min() == 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    turned = decode(encoded(photo(), "JPEG", exif=exif, quality=95), 32).astype(int)
    assert np.abs(turned - np.rot90(decode(encoded(photo()), 32).astype(int), -1)).mean() < 3
    content = encoded(photo(), "JPEG")
    broken = content[:2] + b"\xff\xe1\x00\x10Exif\x00\x00broken!!" + content[2:]
    assert np.array_equal(decode(broken + b"more" * 300, 32), decode(content, 32))


@pytest.mark.parametrize(
    ("name", "told_size", "error", "problem"),
    [
        ("x" * 300, None, RefusedError, "xxx: File name too long$"),
        ("1.jpg", None, DataError, "a.zip: unpacks to 1,000,000 bytes, above 100 times its size"),
        ("1.jpg", 50, DataError, "a.zip: not a readable zip archive"),  # a member that lies about its size
    ],
)
def test_an_archive_that_can_not_be_unpacked_or_to_too_much_is_refused(tmp_path, name, told_size, error, problem):
    path, size = tmp_path / "a.zip", 1_000_000 if name == "1.jpg" else 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(name, bytes(size))
    if told_size:
        path.write_bytes(path.read_bytes().replace(size.to_bytes(4, "little"), told_size.to_bytes(4, "little")))
    with pytest.raises(error, match=problem):
        unpack(path, tmp_path)
