"""Stored pieces, at every process: process 0 alone reads and writes them."""

from pathlib import Path
from typing import Any

import jax
import netCDF4
import xarray as xr
from xarray.backends import NetCDF4DataStore

from seqjax.processes import first, share


def common(dataset: xr.Dataset | None, path: Path) -> Any:
    """The dataset that process 0 has, as it is stored at `path`; None where it has none."""
    if jax.process_count() == 1:
        return dataset
    content = share(path.read_bytes() if first() and dataset is not None else None)
    return dataset if first() else decoded(content)


def decoded(content: bytes) -> xr.Dataset | None:
    """The dataset that the bytes of a netCDF file hold; None where there are none."""
    if not content:
        return None
    with netCDF4.Dataset("shared", memory=content) as file:
        return xr.open_dataset(NetCDF4DataStore(file)).load()
