"""Manifests, archives and pictures with 10,000 mutations each: refused with a clear message, or read truly."""

import io
import itertools
import json
import math
import stat
import struct
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from PIL import Image

from accelbench.data.archive import Zip
from accelbench.data.arrays import SPLITS, Arrays, save_split
from accelbench.data.decode import MAX_PIXELS, decode
from accelbench.data.manifest import check_arrays, digest_of, read_classes, read_counts, read_manifest
from accelbench.data.obtain import Obtained
from accelbench.data.prepare import describe
from accelbench.project import MANIFEST
from faults.mutations import byte_changes, change_bytes, mutated_text, mutations
from faults.watch import Reader, bounded_memory

BOMB_BYTES = 1_400_000_000  # several times 4 bytes for each of the most pixels that are allowed

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]


def test_manifests(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    labels = np.arange(6, dtype=np.uint8) % 2
    for split in SPLITS:
        save_split(folder, split, Arrays(np.zeros((6, 2, 2), np.uint8), labels))
    describe(Obtained(classes=("no", "yes"), source="here", refused=("a.jpg: empty",)), "mnist", folder)
    path = folder / MANIFEST
    (tmp_path / "outside").write_text("")
    texts = [path.read_text()]

    def read() -> None:
        data = read_manifest(folder)
        check_arrays(folder)
        assert (type(data.name), type(data.source), type(data.stand_in)) == (str, str, bool)
        f"{data.name} {data.source}".encode()
        counts, classes = read_counts(folder), read_classes(folder)
        assert all(type(name) is str for name in classes)
        assert set(counts) <= set(SPLITS)
        assert all(type(num) is int and num >= 0 for num in counts.values())

    read()

    def of(given):
        mutation, sealed = given
        text = mutated_text(texts, mutation)
        path.write_bytes(with_digest(text) if sealed else text)
        return read

    Reader("manifests", folder).try_all(st.tuples(mutations, st.booleans()), of)


def with_digest(text: bytes) -> bytes:
    """The manifest `text` with the digest of its contents, as somebody would write it who wants it to be believed."""
    try:
        values = json.loads(text)
        return json.dumps({**values, "digest": digest_of(values)}).encode()
    except (ValueError, TypeError, RecursionError):
        return text


NAMES = ["Cat/1.jpg", "Cat/2.jpg", "Cat/", "..", "../outside", "/outside", "a/../../outside", "C:\\outside"]
NAMES += ["\\outside", "..\\outside", "Cat/\0", "", ".", "x" * 300, "é" * 200, "\ufffd", "batch"]
KINDS_OF_ZIP = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
members = st.lists(
    st.tuples(st.integers(0, len(NAMES) - 1), st.integers(0, 7), st.sampled_from([0, 1, 300, 70_000])),
    min_size=1,
    max_size=3,
)
MODES = [stat.S_IFREG, stat.S_IFREG, stat.S_IFREG, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR]


def zipped(listed, kind: int) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of repeated names
        for name, mode, num_bytes in listed:
            member = zipfile.ZipInfo(NAMES[name])
            member.external_attr = (MODES[mode] | 0o777) << 16
            archive.writestr(member, b"\1" * num_bytes, kind)
    return made.getvalue()


def test_zip_archives(tmp_path):
    wholes = [zipped([(0, 0, 300), (1, 0, 40)], kind) for kind in KINDS_OF_ZIP]
    paths = (tmp_path / f"{number}.zip" for number in itertools.count())

    def read(path: Path) -> None:
        try:
            for name in Zip(path).names():
                assert not name.startswith("/")
                assert ".." not in name.split("/")
                content = Zip(path).read(name)
                assert content == b"\1" * len(content)
        finally:
            path.unlink()

    def of(given):
        kind, changes = given
        path = next(paths)
        if isinstance(changes, list):
            path.write_bytes(zipped(changes, KINDS_OF_ZIP[kind]))
        else:
            path.write_bytes(change_bytes(wholes[kind], changes))
        return lambda: read(path)

    changes = st.one_of(members, byte_changes, byte_changes, byte_changes)
    Reader("zip archives", tmp_path).try_all(st.tuples(st.integers(0, 3), changes), of)


def encoded(mode: str, kind: str, **options) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 14), dtype=np.uint8)
    picture = Image.fromarray(pixels)
    picture = Image.fromarray(pixels.astype(np.uint16) * 257) if mode == "I;16" else picture.convert(mode)
    made = io.BytesIO()
    picture.save(made, kind, **options)
    return made.getvalue()


def pictures() -> list[bytes]:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    several = [Image.new("P", (14, 9), colour) for colour in (1, 2, 3)]
    modes = {"JPEG": "RGB L CMYK", "PNG": "RGB RGBA P I;16 1", "GIF": "P", "BMP": "RGB 1", "WEBP": "RGB RGBA"}
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


def test_pictures(tmp_path):
    wholes = pictures()

    def read(content: bytes, resizes: bool) -> None:
        pixels = decode(content, 32, resizes=resizes)
        assert (pixels.shape, pixels.dtype) == ((32, 32, 3), np.uint8)

    for whole in wholes:
        read(whole, True)

    def of(given):
        index, changes, resizes = given
        content = change_bytes(wholes[index], changes)
        return lambda: read(with_crcs(content) if content.startswith(b"\x89PNG") else content, resizes)

    resizes = st.sampled_from([True, True, True, False])
    which = st.integers(0, len(wholes) - 1)
    Reader("pictures", tmp_path).try_all(st.tuples(which, byte_changes, resizes), of)


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("1", "PNG"), ("I;16", "PNG"), ("RGBA", "PNG"), ("P", "GIF"), ("CMYK", "JPEG"), ("RGB", "BMP"), ("RGBA", "WEBP")],
)
def test_a_picture_of_as_many_pixels_as_are_allowed_takes_a_bounded_memory(mode, kind):
    side = math.isqrt(MAX_PIXELS)
    whole = Image.fromarray(np.zeros((side, side), np.uint16)) if mode == "I;16" else Image.new(mode, (side, side))
    made = io.BytesIO()
    whole.save(made, kind)
    del whole
    with bounded_memory(BOMB_BYTES):
        assert decode(made.getvalue(), 32).shape == (32, 32, 3)
