import numpy as np
import pytest

from accelbench.data import prepare
from accelbench.data.arrays import check_arrays, load_encoded, load_split, read_classes, read_manifest
from accelbench.errors import DataError
from accelbench.project import Workplace
from accelbench.schema.cell import DataSpec

from .conftest import counts, plain, write


@pytest.fixture
def prepared(tmp_path):
    """A function that prepares the folder of pictures, or the file of these arrays; where the data are."""

    def prepared(**arrays):
        if arrays:
            np.savez(tmp_path / "mine.npz", **arrays)
        prepare.prepare_own(prepared.place, prepared.pictures if not arrays else prepared.arrays)
        check_arrays(prepared.place.data / "mine")
        return prepared.place.data / "mine"

    prepared.place = Workplace.of_project(tmp_path / "project")
    prepared.pictures = DataSpec(name="mine", path=str(tmp_path / "pictures"), args={"image_size": 8})
    prepared.arrays = DataSpec(name="mine", path=str(tmp_path / "mine.npz"), args={})
    return prepared


@pytest.fixture
def pictures(tmp_path):
    for index, name in enumerate(["Apples", "bee", "cat 1"]):
        for number in range(5):
            write(tmp_path / "pictures" / name / f"dog.{number}.png", plain(100 * index + number))
    return tmp_path / "pictures"


def test_each_folder_of_pictures_is_a_class_and_a_link_to_a_folder_is_not_followed(prepared, pictures, tmp_path):
    write(tmp_path / "elsewhere.png", plain(107))
    (pictures / "bee" / "link.png").symlink_to(tmp_path / "elsewhere.png")
    (pictures / "folder").symlink_to(tmp_path)
    folder = prepared()
    assert read_manifest(folder).source == "pictures of the folder pictures"
    assert read_manifest(folder).stand_in is False
    assert read_classes(folder) == ["Apples", "bee", "cat 1"]
    assert counts(folder) == {"train": [4, 5, 4], "test": [1, 1, 1]}
    for split, num in {"train": 13, "test": 3}.items():
        arrays = load_split(folder, split)
        assert arrays.images.shape == (num, 8, 8, 3)
        assert np.array_equal(arrays.images[:, 0, 0, 0] // 100, arrays.labels)
        assert len(load_encoded(folder, split).ends) == num


@pytest.mark.parametrize("names", [["1.png", ".git/1.png", ".a/2.png"], ["train/cat/1.png", "test/cat/1.png"]])
def test_fewer_than_two_classes_are_refused(prepared, tmp_path, names):
    for name in names:
        write(tmp_path / "pictures" / name, plain(0))
    with pytest.raises(DataError, match="it has [01] folders with pictures .*, but needs at least two"):
        prepared()


def test_data_are_prepared_again_when_their_files_change(prepared, pictures):
    for change in (lambda: None, lambda: write(pictures / "bee" / "new.png", plain(150))):
        change()
        assert not prepare.is_own_prepared(prepared.place, prepared.pictures)
        prepared()
        assert prepare.is_own_prepared(prepared.place, prepared.pictures)


IMAGES = np.arange(40 * 5 * 6, dtype=np.uint8).reshape(40, 5, 6)
LABELS = np.arange(40) % 4 + 3


def test_images_and_labels_are_divided_by_class(prepared):
    folder = prepared(images=IMAGES[..., None], labels=LABELS[:, None])
    assert read_classes(folder) == ["3", "4", "5", "6"]
    assert read_manifest(folder).source == "arrays of mine.npz"
    assert counts(folder) == {"train": [8] * 4, "test": [2] * 4}
    for split in ("train", "test"):
        arrays = load_split(folder, split)
        rows = [int(np.flatnonzero((image == IMAGES).all((1, 2)))[0]) for image in arrays.images]
        assert np.array_equal(LABELS[rows] - 3, arrays.labels)


def test_arrays_that_are_divided_keep_their_division_and_many_classes_their_labels(prepared):
    colour = np.repeat(IMAGES[..., None], 3, axis=3)
    divided = {"x_train": colour[:30], "y_train": LABELS[:30], "x_test": colour[30:], "y_test": LABELS[30:]}
    assert load_split(prepared(**divided), "test").images.shape == (10, 5, 6, 3)
    folder = prepared(images=np.zeros((900, 2, 2), np.uint8), labels=np.arange(900) % 300)
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
def test_other_arrays_are_refused_with_what_is_expected(prepared, arrays, message):
    with pytest.raises(DataError, match=rf"^data.path={prepared.arrays.path}: ({message})"):
        prepared(**arrays)
    assert not (prepared.place.data / "mine").exists()
