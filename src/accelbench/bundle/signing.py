"""Who made a bundle: a signature in a file beside it, by OpenSSF's model-signing, with keys in files and no network.

It is a Sigstore bundle, which `model_signing verify key` reads, too (https://github.com/sigstore/model-transparency).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelbench.errors import UserError, how_to_install

INSTALL = f"model-signing is not installed: {how_to_install('signing')}"


def path_of(bundle: Path) -> Path:
    """The file of the bundle's signature."""
    return bundle.with_name(f"{bundle.name}.sig")


def sign(bundle: Path, key: Path) -> None:
    """Signs with a private key, a PEM file of an elliptic curve. Raises UserError."""
    with _explained(f"--sign {key}"):
        from model_signing import signing

        signing.Config().use_elliptic_key_signer(private_key=key).sign(bundle, path_of(bundle))


def check(bundle: Path, key: Path) -> None:
    """Raises UserError: the bundle is not signed with the private key of this public one."""
    with _explained(f"--key {key}: not signed with its private key"):
        from model_signing import verifying

        verifying.Config().use_elliptic_key_verifier(public_key=key).verify(bundle, path_of(bundle))


@contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of the library, of its parsers, or of the system
        why = INSTALL if isinstance(error, ImportError) else str(error)[:200] or type(error).__name__
        raise UserError(f"{what} ({why})") from error
