"""Fashion-MNIST: its four original files; drawn clothes as a stand-in."""

from accelbench.data.drawings import Style, save_drawn
from accelbench.data.idx import IdxFile, IdxSet, file_set
from accelbench.data.obtain import Target
from accelbench.data.shapes import CLOTHES

CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")

ORIGINAL = IdxSet(
    title="FashionMNIST",
    files={
        "train_images": IdxFile(
            "train-images-idx3-ubyte",
            (60_000, 28, 28),
            md5="8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            sha256="c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        "train_labels": IdxFile(
            "train-labels-idx1-ubyte",
            (60_000,),
            md5="25c81989df183df01b3e8a0aad5dffbe",
            sha256="bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        "test_images": IdxFile(
            "t10k-images-idx3-ubyte",
            (10_000, 28, 28),
            md5="bef4ecab320f06d8554ea6380940ec79",
            sha256="5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        "test_labels": IdxFile(
            "t10k-labels-idx1-ubyte",
            (10_000,),
            md5="bb300cfdad3c16e7a12a480ee83cd310",
            sha256="0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
    },
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
)

UPRIGHT = Style(size=(0.75, 0.95), turn=8.0, shift=0.08, clutter=0, noise=14.0, grey=True)


def stand_in(target: Target) -> str:
    """Draws clothes as grey silhouettes, upright like the originals."""
    return save_drawn(target.folder, CLOTHES, {"train": 12_000, "test": 2_000}, 28, UPRIGHT)


DATA_SET = file_set(
    ORIGINAL,
    title="Fashion-MNIST",
    home="data/FashionMNIST/raw",  # torchvision's own place
    classes=CLASSES,
    stand_in=stand_in,
)
