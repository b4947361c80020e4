"""Where a command may write."""

import os
from collections.abc import Collection
from pathlib import Path

LONGEST = 200  # bytes of a name, which leaves some for that of the draft beside it


def folder(out: Path, files: Collection[str]) -> Path:
    """The folder to write, made absolute; ValueError where something else is there than `files`, which would be lost,
    or where nothing can be written."""
    out = out.resolve()
    size = len(os.fsencode(out.name))
    if size > LONGEST:
        raise ValueError(f"--out {out.name[:20]}... must be a name of at most {LONGEST} bytes, it has {size}")
    if out.exists() and (out == Path.cwd() or not out.is_dir() or {path.name for path in out.iterdir()} - set(files)):
        raise ValueError(f"--out {out} holds other things: name a new folder, or one that this command wrote")
    nearest = next(path for path in (out, *out.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise ValueError(f"--out {out} cannot be written to: {nearest} is no folder that can")
    return out
