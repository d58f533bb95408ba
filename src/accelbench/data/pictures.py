"""Turns pictures into arrays. The pictures of a folder or of a zip archive are divided into splits and decoded."""

import hashlib
import lzma
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from accelbench.data.arrays import SPLITS, Obtained, array_path, label_type
from accelbench.devices.cpu import usable_cores
from accelbench.errors import DataError, RefusedError

Image.preinit()  # here, so that processes forked from this one inherit it

# No photograph has more. A malicious picture (a decompression bomb) could otherwise fill the memory.
MAX_PIXELS = 50_000_000
# Pillow reads more formats. Some of them start programs (PostScript) or are not pictures.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"}
MAX_FILE_BYTES = 64 << 20  # size of a picture file
MAX_UNPACKED = 100  # unpacked bytes for each byte of an archive; pictures hardly shrink
# The errors of reading a damaged or an encrypted archive.
DAMAGED = (EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, ValueError, MemoryError)
TEST_SHARE = 0.2
SEED = 0
MIN_PICTURES = 3  # pictures of a class that give a test split of one picture: round(0.2 * 3)
MAX_THREADS = 8  # each thread holds a picture, of half a gigabyte at most
CHUNK = 64  # pictures that are decoded before they are written; it bounds the memory
SPLIT_WORDS = {
    **dict.fromkeys(("train", "training", "training_set"), "train"),
    **dict.fromkeys(("test", "test_set", "val", "valid", "validation"), "test"),
}


def decode(content: bytes, side: int) -> NDArray[np.uint8]:
    """Decodes a picture of one of `FORMATS`. The name of its file does not matter.

    The Exif orientation is applied. Grey, palette and CMYK pictures become RGB; transparent pixels become white. If
    there are several frames, the first is used. The picture is resized to `side` x `side` with Pillow's antialiased
    bilinear filter; its aspect ratio is not kept. Pillow may warn of unusual Exif data.

    Returns: uint8, side x side x 3.

    Raises DataError: `content` is not a picture, or the picture is incomplete.
    """
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"too large: {image.width} x {image.height} pixels")
            image.load()
            with suppress(Exception):  # broken Exif data is ignored
                ImageOps.exif_transpose(image, in_place=True)
            return np.asarray(_rgb(image).resize((side, side), Image.Resampling.BILINEAR))
    except UnidentifiedImageError as error:
        raise DataError("no picture, or of an unknown format") from error
    except Exception as error:  # Pillow's decoders raise errors of many types on broken input
        raise DataError(f"not usable ({' '.join(str(error).split()) or type(error).__name__})") from error


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        raise ValueError("16 bits a pixel: Pillow would clip larger values at 255")
    if image.has_transparency_data:  # an alpha channel, or one transparent colour
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return image if image.mode == "RGB" else image.convert("RGB")


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a zip archive.

    Raises DataError: this is not a zip archive, it is damaged, or is a decompression bomb. Raises RefusedError: the
    file system refuses a file, for example because its name is too long or is also the name of a folder.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            num_bytes = sum(member.file_size for member in opened.infolist())
            if num_bytes > MAX_UNPACKED * archive.stat().st_size:
                raise DataError(
                    f"{archive}: unpacks to {num_bytes:,} bytes, above {MAX_UNPACKED} times its size"
                )
            opened.extractall(folder)
    except DAMAGED as error:
        raise DataError(f"{archive}: not a readable zip archive ({error})") from error
    except OSError as error:
        raise RefusedError(error) from error


@dataclass(frozen=True)
class Picture:
    """A picture file."""

    name: str  # path within the source
    label: int  # index of its class
    split: str | None  # one of `SPLITS`; None if the path names no split


# The names of the classes; the pictures, sorted by name; name of any other file -> why it is left out.
Layout = tuple[list[str], list[Picture], dict[str, str]]


def find(names: Iterable[str], classes: Sequence[str] | None) -> Layout:
    """Finds the pictures of each class, and their splits if there are folders for training and testing.

    The class of a picture is the folder that contains it. If `classes` are given, a folder is named after a class
    (`Cat`, `cats`), or the letters at the beginning of the file's name are a class (`cat.0.jpg`).

    Raises DataError: there are fewer than two classes.
    """
    surplus = {}
    paths = {}
    for name in sorted(names):
        path = PurePosixPath(name.replace("\\", "/"))  # as in archives of some programs of Windows
        is_hidden = any(part.startswith(".") for part in path.parts)
        if is_hidden or path.suffix.lower() not in ENDINGS:
            surplus[name] = "its name is not that of a picture"
        elif classes is not None and _class_of(path, classes) is None:
            surplus[name] = f"neither its folder nor its name is a class ({', '.join(classes)})"
        else:
            paths[name] = path
    split_of = {
        name: next(filter(None, map(_split_of, path.parts[:-1])), None) for name, path in paths.items()
    }
    is_divided = set(SPLITS) <= set(split_of.values())
    class_of = {}
    for name, path in paths.items():
        folders = [folder for folder in path.parts[:-1] if not is_divided or _split_of(folder) is None]
        if is_divided and split_of[name] is None:
            surplus[name] = "in neither the training nor the test folder"
        elif classes is not None:
            class_of[name] = str(_class_of(path, classes))
        elif folders:
            class_of[name] = folders[-1]
        else:
            surplus[name] = "in no folder of a class"
    labels = {label: index for index, label in enumerate(classes or sorted(set(class_of.values())))}
    if len(labels) < 2:
        raise DataError(
            f"it has {len(labels)} folders with pictures ({', '.join(sorted(ENDINGS))}), but needs at least two. "
            "Make a folder for each class, directly in it, or in its folders train/ and test/ (or val/)"
        )
    pictures = [
        Picture(name, labels[label], split_of[name] if is_divided else None)
        for name, label in class_of.items()
    ]
    return list(labels), pictures, surplus


def _split_of(folder: str) -> str | None:
    return SPLIT_WORDS.get(folder.lower())


def _class_of(path: PurePosixPath, classes: Sequence[str]) -> str | None:
    folders = [folder for folder in path.parts[:-1] if _split_of(folder) is None]
    letters = re.split("[^a-z]", path.name.lower())[0]
    for word in [*folders[-1:], letters]:
        name = word.lower().removesuffix("s")
        if name in classes:
            return name
    return None


def divide(pictures: Iterable[Picture]) -> dict[str, list[Picture]]:
    """Divides pictures at random into training and test set. Of each class, the test set gets the same share.

    If the path of a picture names a split, the picture stays in this split. The result does not depend on the order of
    `pictures`, and is the same for the same names.
    """
    rng = np.random.default_rng(SEED)
    splits: dict[str, list[Picture]] = {split: [] for split in SPLITS}
    ordered = sorted(pictures, key=lambda picture: (picture.label, picture.name))
    for _, of_class in groupby(ordered, lambda picture: picture.label):
        undecided: list[Picture] = []
        for picture in of_class:
            splits.get(picture.split or "", undecided).append(picture)
        shuffled = [undecided[index] for index in rng.permutation(len(undecided))]
        num_test = round(TEST_SHARE * len(shuffled))
        splits["test"] += shuffled[:num_test]
        splits["train"] += shuffled[num_test:]
    return {
        split: [chosen[index] for index in rng.permutation(len(chosen))] for split, chosen in splits.items()
    }


def convert(
    source: Path, classes: Sequence[str] | None, side: int, folder: Path, *, max_images: int = 0
) -> Obtained:
    """Converts the pictures of a folder or zip archive into arrays. Large sets need no more memory than small ones.

    `folder` gets {train,test}_{images,labels}.npy. For `data.pipeline=jpeg`, it also gets the bytes of the picture
    files (`Encoded`).

    Args:
        classes: names in lower case and singular, in the order of their labels. None means the names of the folders.
        side: height and width of the images.
        max_images: how many pictures are used. They are chosen at random, the same share of each split. 0 means all.

    Raises DataError: `source` is neither a folder nor a zip archive, or a split would have no picture of a class.
    """
    if not source.is_dir():
        if not source.is_file():
            raise DataError(f"{source} is neither a folder nor a zip archive")
        with TemporaryDirectory(dir=folder) as place:
            unpack(source, Path(place))
            return convert(Path(place), classes, side, folder, max_images=max_images)
    names = []
    for above, folders, files in os.walk(source, onerror=_refuse):
        links = [name for name in folders if os.path.islink(os.path.join(above, name))]
        names += [os.path.relpath(os.path.join(above, name), source) for name in files + links]
    class_names, pictures, surplus = find(names, classes)
    splits = divide(pictures)
    part = ""
    reason = None
    if 0 < max_images < len(pictures):
        part = f"{max_images:,} of {len(pictures):,} pictures of "
        reason = "max_images selects only a part of the data set"
        share = max_images / len(pictures)
        splits = {split: chosen[: round(share * len(chosen))] for split, chosen in splits.items()}
    refused = [f"{name}: {why}" for name, why in surplus.items()]
    known: dict[bytes, str] = {}
    for split in reversed(SPLITS):  # test first: if a picture is in both splits, only the test set gets it
        labels = _write(source, splits[split], folder, split, side, known, refused)
        if missing := [name for label, name in enumerate(class_names) if label not in labels]:
            few = (
                f"a class needs at least {MIN_PICTURES} pictures in folders; archives in folders are not read"
            )
            reasons = "\n  ".join(["", *refused[:5]])
            raise DataError(f"no readable pictures of {', '.join(missing)} for {split} ({few}){reasons}")
        for kind, shape in (("images", (side, side, 3)), ("encoded", ())):
            raw = folder / kind
            np.save(array_path(folder, split, kind), np.memmap(raw, np.uint8, "r").reshape(-1, *shape))
            raw.unlink()
        np.save(array_path(folder, split, "labels"), np.array(labels, label_type(len(class_names))))
    return Obtained(classes=class_names, refused=refused, source=part, stand_in_reason=reason)


def _refuse(error: OSError) -> None:
    raise DataError(f"{error.filename} is not a readable folder ({error.strerror})") from error


def _write(
    source: Path,
    pictures: Sequence[Picture],
    folder: Path,
    split: str,
    side: int,
    known: dict[bytes, str],
    refused: list[str],
) -> list[int]:
    """Writes the pictures of a split into the files `images` and `encoded`. Returns their labels.

    Skips copies and unreadable pictures, and adds the reason to `refused`.

    `known`: digest of a file -> name of the first picture with this digest. If copies were not skipped, the training
    set might contain a copy of a test picture.
    """

    def read(picture: Picture) -> tuple[bytes, bytes] | str:
        """Returns the bytes of the file and of its pixels, or an error. Threads call it, as Pillow releases the GIL."""
        path = source / picture.name
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            return f"not a file of at most {MAX_FILE_BYTES:,} bytes"
        content = path.read_bytes()
        try:
            return content, decode(content, side).tobytes()
        except DataError as error:
            return str(error)

    labels = []
    sizes = []
    with (
        warnings.catch_warnings(action="ignore"),  # warnings of unusual Exif data, in all threads
        (folder / "images").open("wb") as images,
        (folder / "encoded").open("wb") as encoded,
        ThreadPoolExecutor(min(MAX_THREADS, usable_cores())) as pool,
    ):
        for start in range(0, len(pictures), CHUNK):
            chunk = pictures[start : start + CHUNK]
            for picture, done in zip(chunk, pool.map(read, chunk), strict=True):
                if isinstance(done, str):
                    refused.append(f"{picture.name}: {done}")
                    continue
                content, pixels = done
                first = known.setdefault(hashlib.sha256(content).digest(), picture.name)
                if first != picture.name:
                    refused.append(f"{picture.name}: the same bytes as {first}")
                    continue
                images.write(pixels)
                encoded.write(content)
                labels.append(picture.label)
                sizes.append(len(content))
    np.save(array_path(folder, split, "ends"), np.cumsum(sizes, dtype=np.int64))
    return labels
