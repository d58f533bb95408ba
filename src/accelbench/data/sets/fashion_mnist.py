"""Fashion-MNIST: its four original files; a drawn digit for each class as a stand-in."""

from accelbench.data.idx import like_mnist

DATA_SET = like_mnist(
    (
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    title="Fashion-MNIST",
    home="data/FashionMNIST/raw",  # torchvision's own place
    classes=("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
)
