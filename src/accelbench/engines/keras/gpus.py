"""The GPUs that TensorFlow finds, as `python -m accelbench.engines.keras.gpus` prints them: one line of JSON."""

import json

import tensorflow as tf


def names() -> list[str]:
    """TensorFlow's name for the model of each GPU that it can compute on."""
    found = tf.config.list_physical_devices("GPU")
    return [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in found]


def main() -> None:
    """Prints the names."""
    print(json.dumps(names()))


if __name__ == "__main__":
    main()
