"""Untrusted archives: no member can be written outside its folder, or fill the disk or the memory."""

import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from accelbench.errors import DataError

MAX_MEMBERS = 200_000
MAX_MEMBER_BYTES = 64 << 20
MAX_TOTAL_BYTES = 32 << 30
MAX_PADDING = 1 << 20  # behind the end of a tar archive; tar writes 10 KiB at most
ENCRYPTED = 0x1  # bit of a zip member's flags
# The errors of reading a damaged archive.
DAMAGED = (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError)


@dataclass(frozen=True)
class Zip:
    """The files in a zip archive, read without unpacking them onto the disk."""

    path: Path

    def names(self) -> list[str]:
        """The names of the members, without folders.

        Raises:
            DataError: this is no zip archive, or a member is unsafe: an absolute path, `..` in the path, a link, a
                repeated name, encrypted, or larger than `MAX_MEMBER_BYTES`.
        """
        try:
            members = _opened(self.path, os.getpid()).infolist()
        except (*DAMAGED, UnicodeDecodeError) as error:
            raise DataError(f"{self.path.name}: no readable zip archive ({error})") from error
        check = MemberCheck(self.path)
        for member in members:
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise DataError(f"{self.path.name}: {member.filename!r} is a link or a device, no file")
            if member.flag_bits & ENCRYPTED:
                raise DataError(f"{self.path.name}: {member.filename!r} is encrypted")
            check.add(member.filename, member.file_size, is_folder=_is_folder(member))
        return [member.filename for member in members if not _is_folder(member)]

    def read(self, name: str) -> bytes:
        """One member's bytes. `names` has checked the size.

        Raises:
            DataError: the member is damaged, or its size differs from the archive's list.
        """
        num_bytes = _opened(self.path, os.getpid()).getinfo(name).file_size
        try:
            with _opened(self.path, os.getpid()).open(name) as file:
                content = file.read(num_bytes + 1)
        except (*DAMAGED, ValueError, MemoryError) as error:  # a damaged LZMA header may ask for gigabytes
            raise DataError(f"damaged in the archive ({error})") from error
        if len(content) != num_bytes:
            raise DataError("damaged in the archive (not as long as its list says)")
        return content


def _is_folder(member: zipfile.ZipInfo) -> bool:
    return member.filename.endswith("/")  # as `ZipInfo.is_dir`, for an empty name too


# Cached since an archive's list is slow to read; per process, since a file position can't be shared.
@lru_cache(maxsize=2)
def _opened(path: Path, process: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


class MemberCheck:
    """Checks the names and sizes of an archive's members, one after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: set[str] = set()
        self.total_bytes = 0

    def add(self, name: str, num_bytes: int, *, is_folder: bool = False, is_read: bool = True) -> None:
        """Raises DataError if a member is unsafe; the message names it.

        Of a folder only the name is checked. One that is not read may be larger than others: it is unpacked only to get
        past it.
        """
        parts = PurePosixPath(name.replace("\\", "/"))
        if parts.is_absolute() or not parts.parts or ".." in parts.parts or ":" in parts.parts[0] or "\0" in name:
            raise self._unsafe(f"{name!r} points outside the archive")
        if is_folder:
            return
        if name in self.seen:
            raise self._unsafe(f"{name!r} is there twice")
        self.seen.add(name)
        if is_read and num_bytes > MAX_MEMBER_BYTES:
            raise self._unsafe(f"{name!r} would unpack to {num_bytes:,} bytes (at most {MAX_MEMBER_BYTES:,})")
        self.total_bytes += num_bytes
        if len(self.seen) > MAX_MEMBERS or self.total_bytes > MAX_TOTAL_BYTES:
            raise self._unsafe(f"more than {MAX_MEMBERS:,} files or {MAX_TOTAL_BYTES:,} bytes")

    def _unsafe(self, what: str) -> DataError:
        return DataError(f"{self.path.name}: {what}; nothing of it is used")


def read_tar(path: Path, wanted: Mapping[str, int]) -> tuple[dict[str, bytes], list[str]]:
    """Reads the wanted files of a tar archive, compressed or not.

    Args:
        path: the archive.
        wanted: member name -> maximum unpacked size in bytes.

    Returns:
        The contents of the wanted files, by name, and the names of the others.

    Raises:
        DataError: this is no tar archive, a member is unsafe, or wanted ones are missing; the message names them.
    """
    found: dict[str, bytes] = {}
    surplus = []
    check = MemberCheck(path)
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if not (member.isreg() or member.isdir()):
                    raise DataError(f"{path.name}: {member.name!r} is a link or a device, no file")
                most = wanted.get(member.name) if member.isreg() else None
                check.add(member.name, member.size, is_folder=member.isdir(), is_read=most is not None)
                if most is not None and member.size > most:
                    raise DataError(f"{path.name}: {member.name!r} has {member.size:,} bytes (at most {most:,})")
                content = None if most is None else archive.extractfile(member)
                if content is not None:
                    found[member.name] = content.read()
                elif member.isreg():
                    surplus.append(member.name)
            # To the end of the file, where gzip compares its checksum with what was read: tarfile stops before it.
            if archive.fileobj and len(archive.fileobj.read(MAX_PADDING + 1)) > MAX_PADDING:
                raise DataError(f"{path.name}: more than {MAX_PADDING:,} bytes behind the end of the archive")
    except (tarfile.TarError, *DAMAGED, ValueError) as error:
        raise DataError(f"{path.name}: no readable tar archive ({error})") from error
    if missing := [name for name in wanted if name not in found]:
        raise DataError(f"{path.name}: missing in it: {', '.join(missing)}")
    return found, surplus
