"""The process that measures: `python -m experiments.benchmark.child THREADS`, a job a line in, its cases a line out.

It is started with as many cores as it may use, before JAX and PyTorch make their threads. Anything that is printed on
the way goes to the standard error, and so does the traceback of what stops it.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import jax

from experiments.benchmark import growth, layer, pairs, probe, stream, sweep
from experiments.benchmark.peers import installed

JOBS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "layer": layer.measure,
    "sweep": sweep.measure,
    "stream": stream.measure,
    "pairs": pairs.measure,
    "probe": probe.measure,
    "growth": growth.measure,
}


def main(threads: int) -> None:
    """Answer jobs until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    jax.config.update("jax_num_cpu_devices", threads)
    jax.config.update("jax_enable_compilation_cache", False)
    if installed("torch"):
        import torch

        torch.set_num_threads(threads)
    for line in sys.stdin:
        job = json.loads(line)
        cases = JOBS[job.pop("job")](**job)
        print(json.dumps(cases), file=answers, flush=True)
        jax.clear_caches()


if __name__ == "__main__":
    main(int(sys.argv[1]))
