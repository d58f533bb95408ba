"""Fashion-MNIST: its four original files. The stand-in is drawn digits."""

from accelbench.data.mnist_files import like_mnist

DATA_SET = like_mnist(
    (
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    title="Fashion-MNIST",
    home="data/FashionMNIST/raw",  # where torchvision keeps them
    classes=("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
)
