"""MNIST: its four original files; scikit-learn's digits as a stand-in."""

from accelbench.data.arrays import save_split
from accelbench.data.idx import IdxFile, IdxSet, file_set
from accelbench.data.obtain import Target

CLASSES = tuple("0123456789")

ORIGINAL = IdxSet(
    title="MNIST",
    files={
        "train_images": IdxFile(
            "train-images-idx3-ubyte",
            (60_000, 28, 28),
            md5="f68b3c2dcbeaaa9fbdd348bbdeb94873",
            sha256="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        "train_labels": IdxFile(
            "train-labels-idx1-ubyte",
            (60_000,),
            md5="d53e105ee54ea40749a09fcbcd1e9432",
            sha256="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        "test_images": IdxFile(
            "t10k-images-idx3-ubyte",
            (10_000, 28, 28),
            md5="9fb629c4189551a2d022fa330f9573f3",
            sha256="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        "test_labels": IdxFile(
            "t10k-labels-idx1-ubyte",
            (10_000,),
            md5="ec29112dd5afa0611ce80d1b7f02629c",
            sha256="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    },
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
)


def stand_in(target: Target) -> str:
    """Real handwriting too, but of fewer people and with fewer pixels."""
    from accelbench.data import digits  # scikit-learn takes a second

    for split, arrays in digits.enlarged().items():
        save_split(target.folder, split, arrays)
    return digits.SOURCE


DATA_SET = file_set(
    ORIGINAL,
    title="MNIST",
    home="data/MNIST/raw",  # torchvision's own place
    classes=CLASSES,
    stand_in=stand_in,
)
