"""The settings of data of the user's own: a folder of pictures, or an .npz file of arrays."""

import re
from pathlib import Path

from accelbench.errors import UserError
from accelbench.schema.serialize import digest
from accelbench.schema.vocab import ARRAYS, FOLDER
from accelbench.settings.config import DataConfig

SIDES = range(1, 4097)  # pixels
MAX_NAME = 40  # characters


def name_data(data: DataConfig) -> None:
    """Names the user's own data after their path, which becomes an absolute one; other data stay as they are.

    Data from another path, or of another image size, get another name, and so another folder of prepared arrays.

    Raises:
        UserError: the path is missing or is nothing of this kind, or a setting goes with other data.
    """
    kind = data.name
    if data.image_size is not None and kind != FOLDER:
        raise UserError(f"data.image_size={data.image_size}: goes with data={FOLDER}, not {kind}")
    if kind not in (FOLDER, ARRAYS):
        if data.path is not None:
            raise UserError(f"data.path={data.path}: goes with data={FOLDER} or data={ARRAYS}, not {kind}")
        return
    what = "a folder with a folder of pictures for each class" if kind == FOLDER else "an .npz file"
    if not data.path:
        raise UserError(f"data.path: it is missing: data={kind} needs the path of {what}")
    path = Path.cwd() / Path(data.path).expanduser()
    if not (path.is_dir() if kind == FOLDER else path.is_file()):
        raise UserError(f"data.path={data.path}: there is no such {'folder' if kind == FOLDER else 'file'}")
    if kind == FOLDER:
        if data.image_size not in SIDES:
            raise UserError(f"data.image_size={data.image_size}: should be a whole number from 1 to {SIDES[-1]}")
        data.args = {"image_size": data.image_size}
    path = path.resolve()
    data.path = str(path)
    stem = re.sub(r"\W+", "_", path.stem, flags=re.ASCII).strip("_")[:MAX_NAME] or kind
    data.name = f"{stem}-{digest([kind, data.path, data.args])[:8]}"
