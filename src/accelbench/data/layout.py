"""The class and the split of picture files, from their paths."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import numpy as np

from accelbench.data.arrays import SPLITS
from accelbench.errors import DataError

ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"}
SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "training_set": "train",
    "test": "test",
    "test_set": "test",
    "val": "test",
    "valid": "test",
    "validation": "test",
}


@dataclass(frozen=True)
class Picture:
    """A picture file, not read yet."""

    name: str  # path within the source
    label: int  # index of the class
    split: str | None  # one of `SPLITS`; None if the path doesn't say


@dataclass(frozen=True)
class Layout:
    """The files of a source."""

    pictures: Sequence[Picture]  # the pictures of a known class, sorted by name
    surplus: Mapping[str, str]  # name of any other file -> why it is left out


def find(names: Iterable[str], classes: Sequence[str]) -> Layout:
    """Finds the pictures of the classes among other files, in any of the usual layouts.

    The class is the name of the nearest folder that is named after one (`Cat`, `cats`), or the beginning of the file
    name (`cat.0.jpg`); if the two differ, the file is surplus. The split is the name of a folder (`train`,
    `validation`, ...). If both splits have pictures, pictures
    without a split are surplus; else the folders' splits are ignored.
    """
    found, surplus = [], {}
    for name in sorted(names):
        path = PurePosixPath(name.replace("\\", "/"))
        of_folder, of_name = _folder_label(path, classes), _name_label(path, classes)
        label = of_name if of_folder is None else of_folder
        if path.suffix.lower() not in ENDINGS:
            surplus[name] = "no picture by its name"
        elif path.name.startswith("._"):  # macOS adds these to archives
            surplus[name] = "no picture, but a note of macOS about one"
        elif None not in (of_folder, of_name) and of_folder != of_name:
            surplus[name] = "of one class by its name and of another by its folder"
        elif label is None:
            surplus[name] = f"of no class ({', '.join(classes)}) by its name or folder"
        else:
            found.append(Picture(name, label, _split(path)))
    if {picture.split for picture in found} >= set(SPLITS):
        surplus |= {p.name: "in neither the training nor the test folder" for p in found if p.split is None}
        found = [picture for picture in found if picture.split]
    else:
        found = [replace(picture, split=None) for picture in found]
    return Layout(found, surplus)


def by_folder(names: Iterable[str]) -> tuple[list[str], Layout]:
    """The classes and their pictures: each folder is a class, or train/ and test/ (or val/) have a folder for each.

    Folders without a picture, and those whose names begin with a dot, are no classes.

    Raises:
        DataError: there are fewer than two classes.
    """
    found: list[tuple[str, str]] = []
    surplus = {}
    for name in sorted(names):
        path = PurePosixPath(name)
        if path.suffix.lower() not in ENDINGS or any(part.startswith(".") for part in path.parts):
            surplus[name] = "no picture by its name"
        elif len(path.parts) == 1:
            surplus[name] = "in no folder of a class"
        else:
            found.append((name, path.parts[0]))
    splits = {folder: SPLIT_WORDS.get(folder.lower()) for _, folder in found}
    is_divided = set(splits.values()) >= set(SPLITS)
    if is_divided:
        surplus |= {name: "in neither the training nor the test folder" for name, folder in found if not splits[folder]}
        surplus |= {
            name: "in no folder of a class" for name, folder in found if splits[folder] and name.count("/") == 1
        }
        found = [(name, folder) for name, folder in found if name not in surplus]
    pairs = [(name, PurePosixPath(name).parts[int(is_divided)]) for name, _ in found]
    classes = sorted({folder for _, folder in pairs})
    if len(classes) < 2:
        has = f"pictures of one class, {classes[0]}" if classes else "no folders with pictures"
        raise DataError(
            f"it has {has}: a class is a folder of pictures ({', '.join(sorted(ENDINGS))}), and two are needed, "
            "directly below it, or below train/ and test/ (or val/)"
        )
    label = {name: index for index, name in enumerate(classes)}
    split = {name: splits[PurePosixPath(name).parts[0]] if is_divided else None for name, _ in pairs}
    return classes, Layout([Picture(name, label[folder], split[name]) for name, folder in pairs], surplus)


def divide(pictures: Sequence[Picture], test_share: float, seed: int) -> dict[str, list[Picture]]:
    """Divides pictures into training and test, each class in the same proportion, in a seeded random order.

    Pictures whose path names a split keep it. The result depends only on the names, not on the order of `pictures`.
    """
    rng = np.random.default_rng(seed)
    splits: dict[str, list[Picture]] = {split: [] for split in SPLITS}
    ordered = sorted(pictures, key=lambda picture: picture.name)
    for label in sorted({picture.label for picture in ordered}):
        members = [picture for picture in ordered if picture.label == label]
        undecided = [picture for picture in members if picture.split is None]
        for split in SPLITS:
            splits[split] += [picture for picture in members if picture.split == split]
        shuffled = [undecided[index] for index in rng.permutation(len(undecided))]
        num_test = round(test_share * len(shuffled))
        splits["test"] += shuffled[:num_test]
        splits["train"] += shuffled[num_test:]
    return {split: [chosen[index] for index in rng.permutation(len(chosen))] for split, chosen in splits.items()}


def _folder_label(path: PurePosixPath, classes: Sequence[str]) -> int | None:
    return next((label for part in reversed(path.parts[:-1]) if (label := _label(part, classes)) is not None), None)


def _name_label(path: PurePosixPath, classes: Sequence[str]) -> int | None:
    beginning = re.match(r"[a-z]+(?=[._ -]?\d)", path.name.lower())
    return _label(beginning.group(), classes) if beginning else None


def _label(word: str, classes: Sequence[str]) -> int | None:
    return next((label for label, name in enumerate(classes) if word.lower() in (name, f"{name}s")), None)


def _split(path: PurePosixPath) -> str | None:
    return next((SPLIT_WORDS[part.lower()] for part in path.parts[:-1] if part.lower() in SPLIT_WORDS), None)


def part_of(splits: Mapping[str, list[Picture]], most: int | None) -> tuple[dict[str, list[Picture]], str]:
    """The first pictures of each split, the same share of each.

    Returns:
        The chosen pictures, and what part they are in words: empty if they are the whole.
    """
    num = sum(map(len, splits.values()))
    if most is None or num <= most:
        return dict(splits), ""
    chosen = {split: found[: round(len(found) * most / num)] for split, found in splits.items()}
    return chosen, f"{most:,} of {num:,} pictures"
