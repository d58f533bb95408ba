"""Data of the user's own: which files are read, when they are read again, and what is refused."""

import numpy as np
import pytest
from PIL import Image

from accelbench.data import prepare
from accelbench.data.arrays import check_arrays, load_encoded, load_split, read_classes, read_manifest
from accelbench.errors import DataError
from accelbench.project import Workplace
from accelbench.schema.cell import DataSpec


@pytest.fixture
def place(tmp_path):
    return Workplace.of_project(tmp_path / "project")


@pytest.fixture
def pictures(tmp_path):
    """Five pictures of each of three classes, each class of another brightness."""
    folder = tmp_path / "pictures"
    for index, name in enumerate(["Apples", "bee", "cat 1"]):
        (folder / name).mkdir(parents=True)
        for number in range(5):
            picture(folder / name / f"dog.{number}.png", 100 * index + number)
    return folder


def picture(path, brightness):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 12), (brightness,) * 3).save(path)


def of_arrays(path, **args):
    return DataSpec(name="mine", path=str(path), args=args)


def of_folder(path):
    return of_arrays(path, image_size=8)


def test_each_folder_of_pictures_is_a_class(place, pictures):
    obtained = prepare.prepare_own(place, of_folder(pictures))
    folder = place.data / "mine"
    check_arrays(folder)
    assert obtained.stand_in_reason is None
    assert read_manifest(folder).source == "pictures of the folder pictures"
    assert read_classes(folder) == ["Apples", "bee", "cat 1"]
    for split, num in {"train": 4, "test": 1}.items():
        arrays = load_split(folder, split)
        assert arrays.images.shape == (3 * num, 8, 8, 3)
        assert np.array_equal(arrays.images[:, 0, 0, 0] // 100, arrays.labels)
        assert len(load_encoded(folder, split).ends) == 3 * num


@pytest.mark.parametrize("names", [["1.png", ".git/1.png", ".a/2.png"], ["train/cat/1.png", "test/cat/1.png"]])
def test_fewer_than_two_classes_are_refused(place, tmp_path, names):
    for name in names:
        picture(tmp_path / "pictures" / name, 0)
    with pytest.raises(DataError, match="it has [01] folders with pictures .*, but needs at least two"):
        prepare.prepare_own(place, of_folder(tmp_path / "pictures"))


def test_data_are_prepared_again_when_their_files_change(place, pictures):
    data = of_folder(pictures)
    for change in (lambda: None, lambda: picture(pictures / "bee" / "new.png", 150)):
        change()
        assert not prepare.is_own_prepared(place, data)
        prepare.prepare_own(place, data)
        assert prepare.is_own_prepared(place, data)


def test_a_link_to_a_folder_is_not_followed(place, pictures, tmp_path):
    picture(tmp_path / "elsewhere.png", 7)
    (pictures / "bee" / "link.png").symlink_to(tmp_path / "elsewhere.png")
    (pictures / "folder").symlink_to(tmp_path)
    prepare.prepare_own(place, of_folder(pictures))
    assert read_classes(place.data / "mine") == ["Apples", "bee", "cat 1"]


IMAGES = np.arange(40 * 5 * 6, dtype=np.uint8).reshape(40, 5, 6)
LABELS = np.arange(40) % 4 + 3


def saved(folder, **arrays):
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


def test_images_and_labels_are_divided_by_class(place, tmp_path):
    prepare.prepare_own(place, of_arrays(saved(tmp_path, images=IMAGES, labels=LABELS[:, None])))
    folder = place.data / "mine"
    check_arrays(folder)
    assert read_classes(folder) == ["3", "4", "5", "6"]
    assert read_manifest(folder).source == "arrays of mine.npz"
    for split, num in {"train": 8, "test": 2}.items():
        arrays = load_split(folder, split)
        assert np.bincount(arrays.labels).tolist() == [num] * 4
        rows = [int(np.flatnonzero((image == IMAGES).all((1, 2)))[0]) for image in arrays.images]
        assert np.array_equal(LABELS[rows] - 3, arrays.labels)


def test_arrays_that_are_divided_keep_their_division_and_many_classes_their_labels(place, tmp_path):
    colour = np.repeat(IMAGES[..., None], 3, axis=3)
    divided = {"x_train": colour[:30], "y_train": LABELS[:30], "x_test": colour[30:], "y_test": LABELS[30:]}
    prepare.prepare_own(place, of_arrays(saved(tmp_path, **divided)))
    assert load_split(place.data / "mine", "test").images.shape == (10, 5, 6, 3)
    prepare.prepare_own(place, of_arrays(saved(tmp_path, images=IMAGES[..., None], labels=LABELS)))
    assert load_split(place.data / "mine", "test").images.shape == (8, 5, 6)
    images = np.zeros((900, 2, 2), np.uint8)
    prepare.prepare_own(place, of_arrays(saved(tmp_path, images=images, labels=np.arange(900) % 300)))
    assert load_split(place.data / "mine", "train").labels.max() == 299


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pictures": IMAGES}, "its arrays are pictures; the file should have the arrays images and labels"),
        (
            {"images": IMAGES / 255, "labels": LABELS[:9]},
            r"images is float64 .*labels is int64 of the shape \(9,\)",
        ),
        ({"images": IMAGES, "labels": LABELS * 0}, r"all labels are \[0\]: a data set needs at least two classes"),
        ({"images": IMAGES[:4], "labels": LABELS[:4]}, "class 3 has no images"),
        ({"images": np.array([{}] * 40), "labels": LABELS}, "not readable as an .npz file of arrays"),
    ],
)
def test_other_arrays_are_refused_with_what_is_expected(place, tmp_path, arrays, message):
    path = saved(tmp_path, **arrays)
    with pytest.raises(DataError, match=rf"^data.path={path}: ({message})"):
        prepare.prepare_own(place, of_arrays(path))
    assert not (place.data / "mine").exists()
