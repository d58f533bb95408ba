from sweep.conftest import shared  # noqa: F401
