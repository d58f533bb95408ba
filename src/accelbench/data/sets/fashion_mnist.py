"""Fashion-MNIST: its four original files; a drawn digit for each class as a stand-in."""

from accelbench.data.idx import idx_set, like_mnist

# The md5 of each packed file and the sha256 of the unpacked one.
DIGESTS = (
    ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"),
    ("25c81989df183df01b3e8a0aad5dffbe", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"),
    ("bef4ecab320f06d8554ea6380940ec79", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    ("bb300cfdad3c16e7a12a480ee83cd310", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
)

DATA_SET = idx_set(
    like_mnist(DIGESTS),
    title="Fashion-MNIST",
    home="data/FashionMNIST/raw",  # torchvision's own place
    classes=("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
)
