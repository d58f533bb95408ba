"""The data sets with a name, and how to obtain them: from the user's files, else from a download, else drawn."""

import gzip
import hashlib
import os
import pickle
import shutil
import tarfile
import urllib.request
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from ssl import SSLError
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import URLError

import numpy as np
from numpy.typing import NDArray

from accelbench.data.arrays import DRAWN, Arrays, Obtained, save_split
from accelbench.errors import DataError, DownloadError, UnknownChoiceError, UserError
from accelbench.schema.cell import RANDOM
from accelbench.schema.serialize import digest, sha256_of, writing

# A mirror that sends nothing for this many seconds is given up.
STALL_S = 4.5
DOWNLOADS = "data/.downloads"  # relative to the project's folder
Settings = Mapping[str, int]  # settings of a data set in params.yaml, such as `image_size`
Files = Mapping[str, str]  # name of a file -> its SHA-256


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set. If it has `files`, drawn images are only a stand-in for them."""

    # writes drawn images into a folder as {train,test}_{images,labels}.npy, and returns a description of them
    draw: Callable[[Path, Settings], str]
    title: str = ""  # name in messages
    classes: Sequence[str] = ()  # names of the classes, in the order of their labels
    settings: Settings = field(default_factory=dict)  # name in params.yaml -> default
    files: Files = field(default_factory=dict)  # files to download
    mirror: str = ""  # beginning of the addresses of `files`; their names are appended
    # Place of the original files, relative to the project; None if the set has no files.
    home: str | None = None
    # reads the original files at a path, and writes their arrays into a folder; raises DataError
    read: Callable[[Path, Path, Settings], Obtained] = lambda path, folder, settings: Obtained()

    def obtain(self, name: str, source: str, root: Path, folder: Path, settings: Settings) -> Obtained:
        """Writes the arrays into `folder`.

        If `source` is `auto`, reads the files in `home`; if there are none, downloads them; if that fails, draws the
        stand-in. Any other `source` is `download`, or a path relative to `root`. Raises DataError.
        """
        if self.home is None:
            return Obtained(classes=self.classes, source=self.draw(folder, settings))
        home = root / self.home
        if source not in ("auto", "download"):
            is_private = source.startswith(("/", "~"))  # the manifest then has only the file's name
            path = root / os.path.expanduser(source)
            how = f"from {path.name if is_private else source}"
        elif source == "auto" and (home.is_file() or any(home.glob("*"))):
            # There is no fallback: wrong files are an error.
            path = home
            how = f"from {self.home}"
        else:
            path = root / DOWNLOADS / name
            how = "downloaded"
            try:
                download(self.files, self.mirror, path)
            except DownloadError as error:
                if source == "download":
                    raise
                drawn = f"stand-in for {self.title}: {self.draw(folder, settings)}"
                reason = f"{self.home} is missing; {error}"
                return Obtained(classes=self.classes, source=drawn, stand_in_reason=reason)
            if len(self.files) == 1:
                path /= next(iter(self.files))
        obtained = self.read(path, folder, settings)
        return replace(obtained, classes=self.classes, source=f"{obtained.source}{self.title}, {how}")


def find(name: str) -> DataSet:
    """Returns the data set `name`. Raises UnknownChoiceError: there is no such data set."""
    if name not in DATA_SETS:
        raise UnknownChoiceError("data", name, sorted(DATA_SETS))
    return DATA_SETS[name]


def source_files(root: Path, name: str, source: str) -> dict[str, Any]:
    """Returns the source and the state of its files (`listed`). DVC prepares the set again if these change."""
    home = find(name).home
    # A set without files has nothing to list; downloaded files have checksums; `prepare` reports an empty source.
    if home is None or source == "download" or not source.strip():
        return {"source": source}
    return listed(
        root / (home if source == "auto" else os.path.expanduser(source)), source, f"data.{name}.source"
    )


def listed(place: Path, source: str, flag: str) -> dict[str, Any]:
    """Returns the number of files at `place`, and a digest of their names, sizes and times of change.

    The contents are only checked when the files are read. `source` is the place as the user wrote it.

    Raises UserError: the files can't be listed. The message begins with `flag`.
    """
    files = []
    try:
        for path in sorted(place.rglob("*") if place.is_dir() else [place]):
            if path.is_file():
                status = path.stat()
                files.append([path.relative_to(place).as_posix(), status.st_size, status.st_mtime_ns])
    except OSError as error:
        raise UserError(f"{flag}={source}: not readable ({error})") from error
    return {"source": source, "num_files": len(files), "digest": digest(files)}


def download(files: Files, mirror: str, folder: Path) -> None:
    """Downloads files that are missing or damaged in `folder`. Raises DownloadError: not all files could be had."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, sha256 in files.items():
            path = folder / name
            if not path.is_file() or sha256_of(path) != sha256:
                _fetch(mirror + name, sha256, path)
    except (HTTPException, URLError, ConnectionError, TimeoutError, SSLError) as error:
        raise DownloadError(f"the download failed: {mirror}: {getattr(error, 'reason', error)}") from error


def _fetch(url: str, sha256: str, path: Path) -> None:
    from rich.console import Console  # not at the top: the parent process imports this module only for names
    from rich.progress import wrap_file

    request = urllib.request.Request(url, headers={"User-Agent": "accelbench"})
    console = Console(stderr=True)
    with urllib.request.urlopen(request, timeout=STALL_S) as response, writing(path) as part:
        total = int(response.headers.get("Content-Length") or 0)
        shown = wrap_file(
            response, total, description=f"Downloading {path.name}", console=console, transient=True
        )
        with shown as body, part.open("wb") as target:
            shutil.copyfileobj(body, target)
        if sha256_of(part) != sha256:
            raise URLError(f"{path.name} arrived altered or incomplete ({part.stat().st_size:,} bytes)")


def checked(path: Path, sha256: str) -> bytes:
    """Reads the file at `path`. Raises DataError: the file is missing, or its digest is not `sha256`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: not readable ({error.strerror})") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"{path}: altered or incomplete: its sha256 is not {sha256}")
    return content


NUM_DRAWN = {"train": 1_500, "test": 500}
MAX_TURN_DEGREES = 20.0
MAX_SHIFT = 0.12  # share of the picture's side
NOISE = 12.0  # standard deviation of the noise of a value, which is from 0 to 255


def drawn_digit(label: int, side: int, rng: np.random.Generator, *, in_colour: bool) -> NDArray[np.uint8]:
    """Draws a light digit on a dark ground. Returns uint8 of shape (side, side), or (side, side, 3) if `in_colour`.

    Position, size and colours are random. A class of such images is easy to learn, so an accuracy on drawn digits can't
    be compared with an accuracy on a real data set.
    """
    from PIL import Image, ImageDraw

    place = side * (0.5 + rng.uniform(-MAX_SHIFT, MAX_SHIFT, 2))
    image = Image.new("L", (side, side))
    font = _font(round(side * rng.uniform(0.7, 1.0)))
    ImageDraw.Draw(image).text(tuple(place.tolist()), str(label), fill=255, font=font, anchor="mm")
    turned = image.rotate(rng.uniform(-MAX_TURN_DEGREES, MAX_TURN_DEGREES), Image.Resampling.BILINEAR)
    shade = np.asarray(turned, np.float64) / 255
    if in_colour:
        paper, ink = rng.uniform(0, 100, 3), rng.uniform(155, 255, 3)
        pixels = paper + (ink - paper) * shade[..., None]
    else:
        pixels = rng.uniform(150, 255) * shade
    return np.rint(np.clip(pixels + rng.normal(0, NOISE, pixels.shape), 0, 255)).astype(np.uint8)


@lru_cache
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def draw_digits(folder: Path, side: int, *, in_colour: bool) -> str:
    """Saves images of ten digits in `folder`. Every call draws the same images. Returns a description of them."""
    for seed, (split, num) in enumerate(NUM_DRAWN.items()):
        rng = np.random.default_rng(seed)
        images = np.stack([drawn_digit(index % 10, side, rng, in_colour=in_colour) for index in range(num)])
        save_split(folder, split, Arrays(images, (np.arange(num) % 10).astype(np.uint8)))
    counts = ", ".join(f"{num:,} {split}" for split, num in NUM_DRAWN.items())
    return f"a drawn digit for each class, {counts} images of {side} x {side}"


MNIST_SIDE = 28
MNIST_NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def like_mnist(*sha256s: str, **fields: Any) -> DataSet:
    """Declares a data set of four files in MNIST's idx format (http://yann.lecun.com/exdb/mnist/).

    `sha256s` are in the order of `MNIST_NAMES`. `fields` are the other fields of the `DataSet`.
    """
    files = dict(zip(MNIST_NAMES, sha256s, strict=True))

    def read(path: Path, folder: Path, settings: Settings) -> Obtained:
        arrays = [_idx(gzip.decompress(checked(path / name, sha256))) for name, sha256 in files.items()]
        save_split(folder, "train", Arrays(*arrays[:2]))
        save_split(folder, "test", Arrays(*arrays[2:]))
        return Obtained()

    return DataSet(
        files=files,
        read=read,
        draw=lambda folder, settings: draw_digits(folder, MNIST_SIDE, in_colour=False),
        **fields,
    )


def _idx(content: bytes) -> NDArray[np.uint8]:
    num_axes = content[3]  # the last byte of the magic number; the lengths of the axes follow it
    shape = np.frombuffer(content, ">u4", num_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_axes).reshape(shape)


CIFAR10_SIDE = 32
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_FILES = {"cifar-10-python.tar.gz": "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"}
CIFAR10_BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}


def _read_cifar10(path: Path, folder: Path, settings: Settings) -> Obtained:
    """Reads the original archive, or a folder or zip archive of PNG files that has one folder for each class."""
    if not path.name.endswith((".tar.gz", ".tgz")):
        from accelbench.data.pictures import convert  # it takes long to import

        return convert(path, CIFAR10, CIFAR10_SIDE, folder)
    # Unpickling can run code. Only bytes with the expected checksum are unpickled.
    (sha256,) = CIFAR10_FILES.values()
    with tarfile.open(fileobj=BytesIO(checked(path, sha256))) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns about pickles of Python 2
        for split, names in CIFAR10_BATCHES.items():
            files = [archive.extractfile(f"cifar-10-batches-py/{name}") for name in names]
            batches = [pickle.load(file, encoding="bytes") for file in files if file]
            pixels = np.concatenate([batch[b"data"] for batch in batches])
            labels = np.concatenate([batch[b"labels"] for batch in batches]).astype(np.uint8)
            images = pixels.reshape(-1, 3, CIFAR10_SIDE, CIFAR10_SIDE).transpose(0, 2, 3, 1)
            save_split(folder, split, Arrays(images, labels))
    return Obtained()


PETS = ("cat", "dog")
NUM_DRAWN_PETS = 2_500
ALL = 1_000_000  # more pictures than any release has


def _read_pets(path: Path, folder: Path, settings: Settings) -> Obtained:
    """Reads a folder or a zip archive of pictures."""
    from accelbench.data.pictures import convert  # it takes long to import

    return convert(path, PETS, settings["image_size"], folder, max_images=settings["max_images"])


def _draw_pets(folder: Path, settings: Settings) -> str:
    """Draws digits into JPEG files. The code that decodes photographs also decodes these files."""
    from PIL import Image

    num = min(NUM_DRAWN_PETS, settings["max_images"])
    with TemporaryDirectory() as place:
        for number in range(num):
            label = number % 2
            rng = np.random.default_rng(number)
            # Most of the photographs have a few hundred pixels on a side.
            pixels = drawn_digit(label, int(rng.integers(200, 301)), rng, in_colour=True)
            Image.fromarray(pixels).save(Path(place, f"{PETS[label]}.{number}.jpg"), quality=90)
        _read_pets(Path(place), folder, settings)
    return f"a drawn digit for each class, {num:,} pictures"


# The homes are the places where torchvision keeps the files.
DATA_SETS = {
    "mnist": like_mnist(
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        title="MNIST",
        home="data/MNIST/raw",
        classes=tuple("0123456789"),
        mirror="https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    "fashion_mnist": like_mnist(
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        title="Fashion-MNIST",
        home="data/FashionMNIST/raw",
        classes=(
            "t-shirt",
            "trouser",
            "pullover",
            "dress",
            "coat",
            "sandal",
            "shirt",
            "sneaker",
            "bag",
            "ankle boot",
        ),
        mirror="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    ),
    "cifar10": DataSet(
        title="CIFAR-10",
        home="data/cifar-10-python.tar.gz",
        classes=CIFAR10,
        files=CIFAR10_FILES,
        mirror="https://www.cs.toronto.edu/~kriz/",
        read=_read_cifar10,
        draw=lambda folder, settings: draw_digits(folder, CIFAR10_SIDE, in_colour=True),
    ),
    "cats_vs_dogs": DataSet(
        title="cats vs dogs",
        home="data/PetImages",
        classes=PETS,
        files={
            "kagglecatsanddogs_5340.zip": "b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9"
        },
        # The archive has 825 MB.
        mirror="https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F/",
        read=_read_pets,
        draw=_draw_pets,
        settings={"image_size": 224, "max_images": ALL},
    ),
    # In the shape and precision of a cell's model. The cell draws them when it runs.
    RANDOM: DataSet(draw=lambda folder, settings: DRAWN),
}
