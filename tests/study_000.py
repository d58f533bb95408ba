"""What study 000 says of its networks."""

# Study 000's networks by timm's names: parameters, and multiply-adds for an image of 224 x 224 in 1e9.
STUDY_000 = {
    "efficientnet_b0": (5_288_548, 0.386),
    "efficientnet_b1": (7_794_184, 0.570),
    "efficientnet_b2": (9_109_994, 0.659),
    "efficientnet_b3": (12_233_232, 0.963),
    "efficientnet_b4": (19_341_616, 1.504),
    "mobilenetv2_100": (3_504_872, 0.301),
    "nasnetalarge": (88_753_150, 10.284),
    "resnet18": (11_689_512, 1.814),
    "resnet26": (15_995_176, 2.342),
    "resnet34": (21_797_672, 3.664),
    "resnet50": (25_557_032, 4.089),
    "resnet101": (44_549_160, 7.801),
    "resnet152": (60_192_808, 11.514),
    "vgg11": (132_863_336, 7.609),
    "vgg13": (133_047_848, 11.308),
    "vgg16": (138_357_544, 15.470),
    "vgg19": (143_667_240, 19.632),
    "legacy_xception": (22_855_952, 4.553),
}
