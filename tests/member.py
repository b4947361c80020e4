"""One of two processes: what they share, agree on and lay out. `python tests/member.py NUMBER PORT`."""

import sys

import jax
import numpy as np

from seqjax.plan import Plan, mesh_of, plan_for, spread
from seqjax.processes import BLOCK, fetch, first, join, require_of_first, require_same, share


def refusal(function, *args):
    """The message of a ValueError."""
    try:
        function(*args)
    except ValueError as error:
        return str(error)
    raise AssertionError("not refused")


def sharing(number):
    """Contents of every size, of process 0 alone."""
    for size in (0, 1, BLOCK - 8, BLOCK, 2 * BLOCK + 5):
        content = np.random.default_rng(size).bytes(size)
        assert share(content if number == 0 else b"another") == content
    assert share(None) == b""


def agreeing(number):
    """What differs, and what process 0 refuses, is refused by both."""
    require_same("settings", "one")
    assert "processes differ in their settings" in refusal(require_same, "settings", f"of {number}")

    def check():
        assert number == 0
        raise ValueError("no folder")

    assert refusal(require_of_first, check) == "no folder"
    require_of_first(lambda: None)


def laying_out(number):
    """Runs over both; each has a device in every mesh, and gets all of what lies there."""
    assert [plan_for(runs).devices for runs in (1, 2, 3, 9)] == [1, 2, 3, 4]
    used = [[device.process_index for device in mesh_of(Plan(devices)).devices.flat] for devices in (2, 3, 4)]
    assert used == [[0, 1], [0, 1, 1], [0, 1, 1, 1]]
    x = np.arange(6.0, dtype=np.float32)
    for plan in (Plan(2), Plan(4), Plan(4, together=2)):  # of which the first divides the runs
        np.testing.assert_array_equal(fetch(jax.jit(spread(lambda a: {"y": a * a}, plan))(x))["y"], x * x)


if __name__ == "__main__":
    own, port = map(int, sys.argv[1:])
    jax.config.update("jax_num_cpu_devices", 1 + 2 * own)
    join(2, process=own, coordinator=f"localhost:{port}", timeout=100)
    assert first() == (own == 0)
    for check in (sharing, agreeing, laying_out):
        check(own)
