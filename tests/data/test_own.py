import numpy as np
import pytest

from accelbench.data import prepare
from accelbench.data.arrays import check_arrays, load_encoded, load_split, read_classes, read_manifest
from accelbench.errors import DataError
from accelbench.project import Workplace
from accelbench.schema.cell import DataSpec

from .conftest import counts, plain, write

PICTURES = DataSpec(name="mine", path="pictures", args={"image_size": 8})
ARRAYS = DataSpec(name="mine", path="mine.npz", args={})


@pytest.fixture
def place(here):
    return Workplace.of_project(here / "project")


def prepared(place, **arrays):
    """Prepares the folder of pictures, or the file of these arrays; where the data are."""
    if arrays:
        np.savez(ARRAYS.path, **arrays)
    prepare.prepare_own(place, ARRAYS if arrays else PICTURES)
    check_arrays(place.data / "mine")
    return place.data / "mine"


@pytest.fixture
def pictures(here):
    for index, name in enumerate(["Apples", "bee", "cat 1"]):
        for number in range(5):
            write(here / "pictures" / name / f"dog.{number}.png", plain(100 * index + number))
    return here / "pictures"


def test_each_folder_of_pictures_is_a_class_and_a_link_to_a_folder_is_not_followed(place, pictures, here):
    write(here / "elsewhere.png", plain(107))
    (pictures / "bee" / "link.png").symlink_to(here / "elsewhere.png")
    (pictures / "folder").symlink_to(here)
    assert not prepare.is_own_prepared(place, PICTURES)
    folder = prepared(place)
    assert read_manifest(folder).source == "pictures of the folder pictures"
    assert read_manifest(folder).stand_in is False
    assert read_classes(folder) == ["Apples", "bee", "cat 1"]
    assert counts(folder) == {"train": [4, 5, 4], "test": [1, 1, 1]}
    for split, num in {"train": 13, "test": 3}.items():
        arrays = load_split(folder, split)
        assert arrays.images.shape == (num, 8, 8, 3)
        assert np.array_equal(arrays.images[:, 0, 0, 0] // 100, arrays.labels)
        assert len(load_encoded(folder, split).ends) == num
    assert prepare.is_own_prepared(place, PICTURES)
    write(pictures / "bee" / "new.png", plain(150))
    assert not prepare.is_own_prepared(place, PICTURES)


@pytest.mark.parametrize("names", [["1.png", ".git/1.png", ".a/2.png"], ["train/cat/1.png", "test/cat/1.png"]])
def test_fewer_than_two_classes_are_refused(place, here, names):
    for name in names:
        write(here / "pictures" / name, plain(0))
    with pytest.raises(DataError, match="it has [01] folders with pictures .*, but needs at least two"):
        prepared(place)


IMAGES = np.arange(40 * 5 * 6, dtype=np.uint8).reshape(40, 5, 6)
LABELS = np.arange(40) % 4 + 3


def test_images_and_labels_are_divided_by_class_unless_they_are_divided(place):
    folder = prepared(place, images=IMAGES[..., None], labels=LABELS[:, None])
    assert read_classes(folder) == ["3", "4", "5", "6"]
    assert read_manifest(folder).source == "arrays of mine.npz"
    assert counts(folder) == {"train": [8] * 4, "test": [2] * 4}
    for split in ("train", "test"):
        arrays = load_split(folder, split)
        rows = [int(np.flatnonzero((image == IMAGES).all((1, 2)))[0]) for image in arrays.images]
        assert np.array_equal(LABELS[rows] - 3, arrays.labels)
    colour = np.repeat(IMAGES[..., None], 3, axis=3)
    divided = {"x_train": colour[:30], "y_train": LABELS[:30], "x_test": colour[30:], "y_test": LABELS[30:]}
    assert load_split(prepared(place, **divided), "test").images.shape == (10, 5, 6, 3)
    folder = prepared(place, images=np.zeros((900, 2, 2), np.uint8), labels=np.arange(900) % 300)
    assert load_split(folder, "train").labels.max() == 299


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": IMAGES}, "its arrays are pictures; the file should have the arrays images and labels"),
        ({"images": IMAGES / 255, "labels": LABELS[:9]}, r"images is float64 .*labels is int64 of the shape \(9,\)"),
        ({"images": IMAGES, "labels": LABELS * 0}, r"all labels are \[0\]: a data set needs at least two classes"),
        ({"images": IMAGES[:4], "labels": LABELS[:4]}, "class 3 has no images"),
        ({"images": np.array([{}] * 40), "labels": LABELS}, "not readable as an .npz file of arrays"),
    ],
)
def test_other_arrays_are_refused_with_what_is_expected(place, arrays, message):
    with pytest.raises(DataError, match=rf"^data.path={ARRAYS.path}: ({message})"):
        prepared(place, **arrays)
    assert not (place.data / "mine").exists()
