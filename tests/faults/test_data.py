"""Manifests, archives and pictures with 10,000 mutations each: refused with a clear message, or read truly."""

import io
import json
import stat
import struct
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from accelbench.data import arrays
from accelbench.data.decode import decode
from accelbench.data.obtain import Obtained
from accelbench.data.pictures import Zip
from accelbench.data.prepare import describe
from accelbench.project import MANIFEST
from faults.mutations import change_bytes, mutated_text
from faults.watch import try_all

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]


def test_manifests(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    labels = np.arange(6, dtype=np.uint8) % 2
    for split in arrays.SPLITS:
        arrays.save_split(folder, split, arrays.Arrays(np.zeros((6, 2, 2), np.uint8), labels))
    describe(Obtained(classes=("no", "yes"), source="here", refused=("a.jpg: empty",)), "mnist", folder)
    path = folder / MANIFEST
    (tmp_path / "outside").write_text("")
    texts = [path.read_text()]

    def read() -> None:
        data = arrays.read_manifest(folder)
        arrays.check_arrays(folder)
        assert (type(data.name), type(data.source), type(data.stand_in)) == (str, str, bool)
        f"{data.name} {data.source}".encode()
        counts, classes = arrays.read_counts(folder), arrays.read_classes(folder)
        assert all(type(name) is str for name in classes)
        assert set(counts) <= set(arrays.SPLITS)
        assert all(type(num) is int and num >= 0 for num in counts.values())

    read()

    def of(dice):
        text = mutated_text(texts, dice)
        path.write_bytes(dice.choice((text, with_digest(text))))
        return read

    try_all(folder, of)


def with_digest(text: bytes) -> bytes:
    """The manifest `text` with the digest of its contents, as somebody would write it who wants it to be believed."""
    try:
        values = json.loads(text)
        return json.dumps({**values, "digest": arrays.digest_of(values)}).encode()
    except (ValueError, TypeError, RecursionError):
        return text


NAMES = ["Cat/1.jpg", "Cat/2.jpg", "Cat/", "..", "../outside", "/outside", "a/../../outside", "C:\\outside"]
NAMES += ["\\outside", "..\\outside", "Cat/\0", "", ".", "x" * 300, "é" * 200, "\ufffd", "batch"]
KINDS_OF_ZIP = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
MODES = [stat.S_IFREG] * 4 + [stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR]


def zipped(kind: int, *members: tuple[str, int, int]) -> bytes:
    """An archive of members with a name, a mode and so many bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of repeated names
        for name, mode, num_bytes in members:
            member = zipfile.ZipInfo(name)
            member.external_attr = (mode | 0o777) << 16
            archive.writestr(member, b"\1" * num_bytes, kind)
    return made.getvalue()


def test_zip_archives(tmp_path):
    wholes = [zipped(kind, (NAMES[0], MODES[0], 300), (NAMES[1], MODES[0], 40)) for kind in KINDS_OF_ZIP]

    def read(path: Path) -> None:
        for name in Zip(path).names():
            assert not name.startswith("/")
            assert ".." not in name.split("/")
            content = Zip(path).read(name)
            assert content == b"\1" * len(content)

    def of(dice):
        if dice.random() < 0.25:
            kinds = (NAMES, MODES, (0, 1, 300, 70_000))
            members = [tuple(map(dice.choice, kinds)) for _ in range(dice.randint(1, 3))]
            content = zipped(dice.choice(KINDS_OF_ZIP), *members)
        else:
            content = change_bytes(dice.choice(wholes), dice)
        path = tmp_path / f"{dice.getrandbits(60)}.zip"  # another one each time: archives stay open
        path.write_bytes(content)
        return lambda: read(path)

    try_all(tmp_path, of)


def encoded(mode: str, kind: str, **options) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 14), dtype=np.uint8)
    made = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(made, kind, **options)
    return made.getvalue()


def pictures() -> list[bytes]:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    several = [Image.new("P", (14, 9), colour) for colour in (1, 2, 3)]
    modes = {"JPEG": "RGB L CMYK", "PNG": "RGB RGBA P 1", "GIF": "P", "BMP": "RGB 1", "WEBP": "RGB RGBA"}
    made = [encoded(mode, kind) for kind, found in modes.items() for mode in found.split()]
    made += [encoded("RGB", "JPEG", exif=exif), encoded("RGB", "JPEG", progressive=True)]
    made += [encoded("RGB", "PNG", exif=exif), encoded("LA", "PNG"), encoded("P", "PNG", transparency=3)]
    return [*made, encoded("P", "GIF", save_all=True, append_images=several, transparency=1)]


def with_crcs(content: bytes) -> bytes:
    """The PNG file `content` with a right checksum behind each chunk."""
    changed, at = bytearray(content), 8
    while at + 12 <= len(changed):
        (length,) = struct.unpack_from(">I", changed, at)
        end = at + 8 + length
        if end + 4 > len(changed):
            break
        struct.pack_into(">I", changed, end, zlib.crc32(changed[at + 4 : end]))
        at = end + 4
    return bytes(changed)


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's, of unusual Exif data
def test_pictures(tmp_path):
    wholes = pictures()

    def read(content: bytes, resizes: bool) -> None:
        pixels = decode(content, 32, resizes=resizes)
        assert (pixels.shape, pixels.dtype) == ((32, 32, 3), np.uint8)

    for whole in wholes:
        read(whole, True)

    def of(dice):
        content = change_bytes(dice.choice(wholes), dice)
        resizes = dice.random() < 0.75
        return lambda: read(with_crcs(content) if content.startswith(b"\x89PNG") else content, resizes)

    try_all(tmp_path, of)
