"""Typed values <-> JSON: canonical text, digests, and files that are written whole or not at all."""

import hashlib
import json
import os
import tempfile
from pathlib import Path


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text on every machine."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: object) -> str:
    """The sha256 of `value`'s canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def write_json(path: Path, value: object) -> None:
    """Writes JSON so that `path` holds either the old text or the whole new one, whatever happens."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", suffix=".tmp", delete=False) as file:
        try:
            json.dump(value, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
