"""MNIST: its four original files; drawn digits as a stand-in."""

from accelbench.data.idx import like_mnist

DATA_SET = like_mnist(
    (
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    title="MNIST",
    home="data/MNIST/raw",  # torchvision's own place
    classes=tuple("0123456789"),
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
)
