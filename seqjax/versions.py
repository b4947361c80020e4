"""Versions of what is installed."""

from importlib import metadata


def version(name: str) -> str:
    """An installed distribution's version."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
