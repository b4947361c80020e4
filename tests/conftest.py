"""Every test runs in float64, where silent broadcasting is an error, and so is a warning (pyproject.toml)."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the tests run side by side already

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_num_cpu_devices", 2)
