"""Has PyTorch compute on the CPU what is on the simulated GPU, in each Python process that starts CUDA."""

import sys


class _AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == "torch.cuda.tunable":  # the last part of torch.cuda
            sys.modules["torch.cuda"]._lazy_call(_enter)  # once it starts


def _enter():
    import on_host

    on_host.enter()


sys.meta_path.insert(0, _AtImport())
