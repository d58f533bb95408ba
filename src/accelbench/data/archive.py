"""Untrusted zip archives: no member can be written outside its folder, or fill the disk or the memory."""

import lzma
import stat
import zipfile
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from accelbench.errors import DataError

MAX_MEMBERS = 200_000
MAX_MEMBER_BYTES = 64 << 20
MAX_TOTAL_BYTES = 32 << 30
# The errors of reading a damaged or an encrypted archive.
DAMAGED = (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError)


@dataclass(frozen=True)
class Zip:
    """The files in a zip archive, read without unpacking them onto the disk."""

    path: Path

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.path)

    def names(self) -> list[str]:
        """The names of the members, without folders.

        Raises DataError: this is no zip archive, or a member is unsafe: an absolute path, `..` in the path, a link, a
        repeated name, or larger than `MAX_MEMBER_BYTES`.
        """
        try:
            members = self._archive.infolist()
        except (*DAMAGED, UnicodeDecodeError) as error:
            raise DataError(f"{self.path.name}: no readable zip archive ({error})") from error
        found: dict[str, int] = {}
        for member in members:
            if problem := _problem(member) or (member.filename in found and "is there twice"):
                raise DataError(f"{self.path.name}: {member.filename!r} {problem}; nothing of it is used")
            if not member.filename.endswith("/"):  # a folder
                found[member.filename] = member.file_size
        if len(found) > MAX_MEMBERS or sum(found.values()) > MAX_TOTAL_BYTES:
            most = f"more than {MAX_MEMBERS:,} files or {MAX_TOTAL_BYTES:,} bytes"
            raise DataError(f"{self.path.name}: {most}; nothing of it is used")
        return list(found)

    def read(self, name: str) -> bytes:
        """One member's bytes; several threads may read. Raises DataError: it is damaged or of another size."""
        num_bytes = self._archive.getinfo(name).file_size
        try:
            with self._archive.open(name) as file:
                content = file.read(num_bytes + 1)
        except (*DAMAGED, ValueError, MemoryError) as error:  # a damaged LZMA header may ask for gigabytes
            raise DataError(f"damaged in the archive ({error})") from error
        if len(content) != num_bytes:
            raise DataError("damaged in the archive (not as long as its list says)")
        return content


def _problem(member: zipfile.ZipInfo) -> str | None:
    """Why a member is unsafe, or None."""
    name = member.filename
    parts = PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or not parts.parts or ".." in parts.parts or ":" in parts.parts[0] or "\0" in name:
        return "points outside the archive"
    if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link or a device, no file"
    if member.file_size > MAX_MEMBER_BYTES:
        return f"would unpack to {member.file_size:,} bytes (at most {MAX_MEMBER_BYTES:,})"
    return None
