"""Every test runs in float64, where silent broadcasting is an error, and so is a warning (pyproject.toml).

Compiling takes most of a test's time, so XLA's backend does not optimise here, and where it can still be told so, it
does without the emitters of fusions, which take half of that time. Processes that tests start are as users have them,
unless they say otherwise.
"""

import os
from unittest.mock import patch

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the tests run side by side already

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_num_cpu_devices", 2)
FLAGS = ["--xla_backend_optimization_level=0"]
if jax.__version_info__ < (0, 12):  # later ones do not know it, and end the process
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")
UNOPTIMISED = {"XLA_FLAGS": " ".join([os.environ.get("XLA_FLAGS", ""), *FLAGS])}
with patch.dict(os.environ, UNOPTIMISED):
    jax.devices()  # XLA reads its flags once, here


@pytest.fixture(scope="module", autouse=True)
def programs():
    """Drop the compiled programs of every module: each is mapped into memory in pieces, and Linux counts those."""
    yield
    jax.clear_caches()
