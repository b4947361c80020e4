"""Every test runs in float64, where silent broadcasting is an error, and so is a warning (pyproject.toml).

Compiling takes most of a test's time, so XLA's backend does not optimise here; processes that tests start, which run the
experiments and the README, are as users have them.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the tests run side by side already
FLAGS = os.environ.get("XLA_FLAGS")
os.environ["XLA_FLAGS"] = f"{FLAGS or ''} --xla_backend_optimization_level=0"

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_num_cpu_devices", 2)
jax.devices()  # reads the flags
if FLAGS is None:
    del os.environ["XLA_FLAGS"]
else:
    os.environ["XLA_FLAGS"] = FLAGS
