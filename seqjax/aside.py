"""Files and folders written aside and renamed, so that none is ever half there."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Yield a sibling path to write to; what was written replaces `path` only if nothing went wrong."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield draft
        if path.is_dir() and draft.is_dir():
            discard(path)
        os.replace(draft, path)
    finally:
        discard(draft)


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
