"""Data that installed distributions carry, found without importing them."""

from importlib import metadata
from pathlib import Path


def installed_file(distribution: str, file: str) -> Path:
    """Where an installed distribution keeps a file; ValueError with the install line where it is missing."""
    try:
        path = Path(str(metadata.distribution(distribution).locate_file(file)))
    except metadata.PackageNotFoundError:
        path = None
    if path is None or not path.is_file():
        raise ValueError(
            f"{Path(file).name} needs the extra `data` (the {distribution} distribution): run pip install '.[data]' in "
            f"the seqjax checkout, or pip install {distribution}"
        )
    return path
