import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelbench.data.layout import Picture, divide, find

CLASSES = ("cat", "dog")


def placed(*names):
    return {picture.name: (picture.label, picture.split) for picture in find(names, CLASSES).pictures}


@pytest.mark.parametrize(
    "names",
    [
        ("PetImages/Cat/0.jpg", "PetImages/Dog/0.jpg"),
        ("train/cats/cat.0.jpg", "train/dogs/dog.0.jpg"),
        ("train/cat.0.jpg", "train/dog.0.jpg"),
        ("cat/cat.600.jpg", "dog/dog.600.jpg"),
        ("cat.1.jpg", "dog.1.jpg"),
        ("CATS/1.JPEG", "DOGS/1.Png"),
        ("PetImages\\Cat\\0.jpg", "PetImages\\Dog\\0.jpg"),
    ],
)
def test_each_usual_layout_is_understood(names):
    assert placed(*names) == {names[0]: (0, None), names[1]: (1, None)}


def test_a_name_and_a_folder_that_differ_are_surplus():
    layout = find(("Cat/dog.1.jpg", "dogs/train/cat.0.jpg", "cats/dogs/dog.2.jpg"), CLASSES)
    assert [(picture.name, picture.label) for picture in layout.pictures] == [("cats/dogs/dog.2.jpg", 1)]
    assert set(layout.surplus.values()) == {"of one class by its name and of another by its folder"}


def test_splits_count_where_both_are_there():
    both = placed("train/cats/1.jpg", "test/cats/2.jpg", "validation/dogs/3.jpg")
    assert both == {
        "train/cats/1.jpg": (0, "train"),
        "test/cats/2.jpg": (0, "test"),
        "validation/dogs/3.jpg": (1, "test"),
    }
    assert placed("train/cats/1.jpg", "train/dogs/2.jpg") == {
        "train/cats/1.jpg": (0, None),
        "train/dogs/2.jpg": (1, None),
    }


def test_kaggles_unlabelled_test_pictures_and_whatever_else_lies_there_are_surplus():
    names = (
        "train/cat.0.jpg",
        "test1/17.jpg",
        "readme[1].txt",
        "Cat/Thumbs.db",
        "__MACOSX/Cat/._0.jpg",
        "category/9.jpg",
    )
    layout = find(names, CLASSES)
    assert [picture.name for picture in layout.pictures] == ["train/cat.0.jpg"]
    assert set(layout.surplus) == set(names[1:])
    assert layout.surplus["test1/17.jpg"] == "of no class (cat, dog) by its name or folder"


def test_with_a_split_of_its_own_what_lies_outside_it_is_surplus():
    layout = find(("train/cat/1.jpg", "test/cat/2.jpg", "odd/PetImages/Cat/3.jpg"), CLASSES)
    assert layout.surplus == {"odd/PetImages/Cat/3.jpg": "in neither the training nor the test folder"}


PICTURES = st.lists(
    st.builds(
        Picture,
        name=st.text(min_size=1),
        label=st.integers(0, 2),
        split=st.sampled_from([None, None, None, "train", "test"]),
    ),
    unique_by=lambda picture: picture.name,
    max_size=80,
)


@given(PICTURES, st.integers(0, 5), st.randoms(use_true_random=False))
def test_a_division_is_disjoint_whole_stratified_and_stable_under_the_files_order(pictures, seed, shuffler):
    splits = divide(pictures, 0.2, seed)
    names = [picture.name for chosen in splits.values() for picture in chosen]
    assert sorted(names) == sorted(picture.name for picture in pictures)
    for split, chosen in splits.items():
        assert all(picture.split in (None, split) for picture in chosen)
    for label in range(3):
        undecided = [p for p in pictures if p.label == label and p.split is None]
        num_test = sum(p.label == label and p.split is None for p in splits["test"])
        assert num_test == round(0.2 * len(undecided))
    other = list(pictures)
    shuffler.shuffle(other)
    assert divide(other, 0.2, seed) == splits
