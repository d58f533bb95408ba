"""Has PyTorch compute on the CPU what is on the simulated GPU, in each Python process that starts CUDA."""

import importlib.abc
import importlib.util
import sys


class _AfterImport(importlib.abc.MetaPathFinder):
    """Has `torch.cuda` call `on_host.enter` once it starts."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch.cuda":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def run_and_ask(module):
            run(module)
            module._lazy_call(_enter)

        spec.loader.exec_module = run_and_ask
        return spec


def _enter():
    import on_host

    on_host.enter()


sys.meta_path.insert(0, _AfterImport())
