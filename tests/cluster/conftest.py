from sweep.conftest import project, shared  # noqa: F401
