"""Untrusted zip archives: no member can be written outside its folder, or fill the disk or the memory."""

import lzma
import os
import stat
import zipfile
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from accelbench.errors import DataError

MAX_MEMBERS = 200_000
MAX_MEMBER_BYTES = 64 << 20
MAX_TOTAL_BYTES = 32 << 30
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
        found: dict[str, int] = {}
        for member in members:
            is_folder = member.filename.endswith("/")  # as `ZipInfo.is_dir`, for an empty name too
            if problem := _problem(member) or (member.filename in found and "is there twice"):
                raise DataError(f"{self.path.name}: {member.filename!r} {problem}; nothing of it is used")
            if not is_folder:
                found[member.filename] = member.file_size
        if len(found) > MAX_MEMBERS or sum(found.values()) > MAX_TOTAL_BYTES:
            most = f"more than {MAX_MEMBERS:,} files or {MAX_TOTAL_BYTES:,} bytes"
            raise DataError(f"{self.path.name}: {most}; nothing of it is used")
        return list(found)

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


# Cached since an archive's list is slow to read; per process, since a file position can't be shared.
@lru_cache(maxsize=2)
def _opened(path: Path, process: int) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)


def _problem(member: zipfile.ZipInfo) -> str | None:
    """Why a member is unsafe, or None."""
    name = member.filename
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or not parts.parts or ".." in parts.parts or ":" in parts.parts[0] or "\0" in name:
        return "points outside the archive"
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device, no file"
    if member.flag_bits & ENCRYPTED:
        return "is encrypted"
    if member.file_size > MAX_MEMBER_BYTES:
        return f"would unpack to {member.file_size:,} bytes (at most {MAX_MEMBER_BYTES:,})"
    return None
