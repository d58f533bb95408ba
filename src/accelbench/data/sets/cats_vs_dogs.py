"""Photographs of cats and dogs, from the release of Microsoft or of Kaggle.

If they are not available, images of drawn digits replace them.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from accelbench.data.obtain import File, FileSet, Obtained, Target
from accelbench.data.pictures import Folder, Source, convert, open_source
from accelbench.data.stand_ins import draw

CLASSES = ("cat", "dog")

NUM_DRAWN = 2_500
ALL = 1_000_000  # more pictures than any release has
# 825 MB
ARCHIVE = File("kagglecatsanddogs_5340.zip", "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9")


def read(path: Path, target: Target) -> Obtained:
    """Reads a folder or a zip archive of pictures (`pictures.find`)."""
    return _convert(open_source(path), target)


def stand_in(target: Target) -> str:
    """Draws digits into JPEG files. The code that decodes photographs also decodes these files."""
    num = min(NUM_DRAWN, target.settings["max_images"])
    with TemporaryDirectory() as folder:
        for number in range(num):
            label = number % 2
            rng = np.random.default_rng(number)
            # Most of the photographs have a few hundred pixels on a side.
            pixels = draw(label, int(rng.integers(200, 301)), rng, in_colour=True)
            Image.fromarray(pixels).save(Path(folder, f"{CLASSES[label]}.{number}.jpg"), quality=90)
        _convert(Folder(Path(folder)), target)
    return f"a drawn digit for each class, {num:,} pictures"


def _convert(source: Source, target: Target) -> Obtained:
    settings = target.settings
    return convert(source, CLASSES, settings["image_size"], target.folder, max_images=settings["max_images"])


DATA_SET = FileSet(
    title="cats vs dogs",
    home="data/PetImages",
    classes=CLASSES,
    files=[ARCHIVE],
    mirrors=["https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F/"],
    read=read,
    stand_in=stand_in,
    shape=(3, 224, 224),
    settings={"image_size": 224, "max_images": ALL},
)
