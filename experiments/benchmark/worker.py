"""Starting the process that measures on one core or on all, and asking it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
PINS = hasattr(os, "sched_setaffinity")  # whether a process can be held to some cores
Ask = Callable[..., list[dict[str, Any]]]


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if PINS else os.cpu_count() or 1


@contextmanager
def worker(threads: int) -> Iterator[Ask]:
    """Yield a function that has a job done, `ask(job, **settings)`, by a process on so many cores, all or one.

    It starts at the first job. RuntimeError where it ends without an answer; its own message is on the standard error.
    """
    process: subprocess.Popen[str] | None = None

    def ask(job: str, **settings: Any) -> list[dict[str, Any]]:
        nonlocal process
        process = process or started(threads)
        return answer(process, {"job": job, **settings})

    try:
        yield ask
    finally:
        if process is not None:
            process.kill()
            process.communicate()


def started(threads: int) -> "subprocess.Popen[str]":
    """The process, held to the last of our cores where it gets one of several: what it starts inherits that."""
    mine = os.sched_getaffinity(0) if PINS else set()
    if PINS and threads == 1:
        os.sched_setaffinity(0, {max(mine)})  # of this thread, and of what it starts
    try:
        command = [sys.executable, "-m", "experiments.benchmark.child", str(threads)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, env=environment(threads), stdin=pipe, stdout=pipe, text=True)
    finally:
        if PINS:
            os.sched_setaffinity(0, mine)


def environment(threads: int) -> dict[str, str]:
    """So many threads for everyone, and memory that is kept once it was had, as within one long training.

    Else XLA, which takes all its temporaries in one piece, pays for fresh pages at every call; no memory of a GPU is
    taken in advance.
    """
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    kept = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**34)}
    return {**os.environ, **counts, **kept, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "JAX_ENABLE_X64": "false"}


def answer(process: "subprocess.Popen[str]", job: dict[str, Any]) -> list[dict[str, Any]]:
    """The cases of one job."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        print(json.dumps(job), file=process.stdin, flush=True)
        line = process.stdout.readline()
    except BrokenPipeError:
        line = ""
    if not line:
        raise RuntimeError(f"the measuring process stopped, code {process.wait()}, at {job}: its message is above")
    return json.loads(line)
