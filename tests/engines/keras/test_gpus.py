import json

import tensorflow as tf

from accelbench.engines.keras import gpus


def test_the_gpus_that_tensorflow_finds_are_printed_as_a_line_of_json(capsys):
    gpus.main()
    assert len(json.loads(capsys.readouterr().out)) == len(tf.config.list_physical_devices("GPU"))
