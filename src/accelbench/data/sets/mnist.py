"""MNIST: its four original files; drawn digits as a stand-in."""

from accelbench.data.idx import idx_set, like_mnist

# The md5 of each packed file and the sha256 of the unpacked one.
DIGESTS = (
    ("f68b3c2dcbeaaa9fbdd348bbdeb94873", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    ("d53e105ee54ea40749a09fcbcd1e9432", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    ("9fb629c4189551a2d022fa330f9573f3", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    ("ec29112dd5afa0611ce80d1b7f02629c", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)

DATA_SET = idx_set(
    like_mnist(DIGESTS),
    title="MNIST",
    home="data/MNIST/raw",  # torchvision's own place
    classes=tuple("0123456789"),
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
)
