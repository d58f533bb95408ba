import importlib.util
import sys

import pytest

from accelbench.doctor import tensorflow_gpus


@pytest.mark.parametrize(
    ("shown", "tensorflows", "found", "words"),
    [
        ([], ["never asked"], False, "no NVIDIA GPU or driver found"),
        (["H200"], [], False, "finds none of 1 GPU and would take the CPU: it needs CUDA libraries of its own"),
        (["H200", "H200"], None, False, "TensorFlow did not start"),
        (["H200", "H200"], ["NVIDIA H200"], True, "NVIDIA H200, 1 of 2"),
        (["H200"], ["NVIDIA H200"], True, "NVIDIA H200"),
    ],
)
def test_a_gpu_that_tensorflow_does_not_find_is_named_with_the_reason(shown, tensorflows, found, words):
    answer = tensorflow_gpus.look(lambda: shown, lambda: tensorflows)
    assert answer.found is found
    assert words in answer.text


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("""print('a log'); print('["NVIDIA H200"]')""", ["NVIDIA H200"]),
        ("raise SystemExit(1)", None),
        ("", None),
        ("print('no json')", None),
    ],
)
def test_the_answer_is_the_last_line_of_a_process(monkeypatch, code, answer):
    monkeypatch.setattr(tensorflow_gpus, "ASK", [sys.executable, "-c", code])
    assert tensorflow_gpus.ask_tensorflow() == answer


def test_the_process_is_that_of_a_module():
    *_, flag, module = tensorflow_gpus.ASK
    assert (flag, importlib.util.find_spec(module) is not None) == ("-m", True)
