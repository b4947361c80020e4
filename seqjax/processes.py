"""Many processes as one program: joining them, what they must agree on, and what all of them see.

Every process runs the same code on the same arguments. A sweep lays its runs out over the devices of all processes (see
`plan.Plan`), and what was computed stays there until it is fetched; process 0 alone reads, writes and prints.
"""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

BLOCK = 2**20  # bytes that are shared at a time, so that one program serves contents of every size


def join(
    processes: int | str,
    *,
    process: int | None = None,
    coordinator: str | None = None,
    timeout: int = 60,
    heartbeat: int = 100,
) -> None:
    """Become one of many processes; before anything asks JAX for a device.

    processes    how many, or "auto" where Slurm, Open MPI, Kubernetes or a TPU pod tells that, and the two below
    process      the number of this one, from 0
    coordinator  "host:port" at which process 0 listens and all others find it
    timeout      seconds until all must have come
    heartbeat    seconds without a sign of life after which a process counts as lost, and all others end
    Raises ValueError for arguments that do not go together and for an "auto" that finds nothing, TimeoutError where the
    processes have not met in time; JAX is then still waiting for them, so that only `os._exit` ends at once.
    """
    given = auto(process, coordinator) if processes == "auto" else explicit(processes, process, coordinator)
    jax.config.update("jax_enable_preemption_service", False)  # which takes SIGTERM for a notice, and lives on
    errors: list[Exception] = []

    def meet() -> None:
        try:
            jax.distributed.initialize(
                **given, initialization_timeout=timeout + 60, heartbeat_timeout_seconds=heartbeat
            )
        except Exception as error:
            errors.append(error)

    meeting = Thread(target=meet, daemon=True)  # as JAX kills a process that has waited in vain, without a word
    meeting.start()
    meeting.join(timeout)
    if meeting.is_alive():
        raise TimeoutError(unmet(processes, process, coordinator, timeout))
    if errors:
        raise ValueError(refused(processes, process, coordinator, errors[0]))


def auto(process: Any, coordinator: Any) -> dict[str, Any]:
    """Arguments that leave all to JAX; ValueError where something was given."""
    if process is not None or coordinator is not None:
        given = f"process {process!r} and coordinator {coordinator!r}"
        raise ValueError(f"processes 'auto' finds process and coordinator, got {given}: leave them out")
    return {}


def explicit(processes: Any, process: Any, coordinator: Any) -> dict[str, Any]:
    """Arguments for a count, a number and an address; ValueError for others."""
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise ValueError(f"processes must be a count of at least 1, or 'auto', got {processes!r}")
    if isinstance(process, bool) or not isinstance(process, int) or not 0 <= process < processes:
        raise ValueError(f"process must be the number of this one of {processes}, from 0, got {process!r}")
    if not isinstance(coordinator, str) or not re.fullmatch(r".+:\d{1,5}", coordinator):
        raise ValueError(f"coordinator must be 'host:port', where process 0 listens, got {coordinator!r}")
    return {
        "coordinator_address": coordinator,
        "num_processes": processes,
        "process_id": process,
        "cluster_detection_method": "deactivate",
    }


def unmet(processes: Any, process: Any, coordinator: Any, timeout: int) -> str:
    """What to say where some have not come."""
    who = "the processes" if processes == "auto" else f"process {process} and the others of {processes}"
    where = "the coordinator that was found" if coordinator is None else f"coordinator {coordinator}"
    return (
        f"{who} have not met at {where} within {timeout} s: start every process, each with the same count, and with "
        "the address at which process 0 can be reached"
    )


def refused(processes: Any, process: Any, coordinator: Any, error: Exception) -> str:
    """What to say where JAX does not even try."""
    if processes == "auto" and isinstance(error, ValueError):
        fix = "give a count of processes, the number of this one and a coordinator 'host:port'"
        return f"processes 'auto' found no Slurm, Open MPI, Kubernetes or TPU pod to ask ({error}): {fix}"
    who = "this process" if processes == "auto" else f"process {process} of {processes}, at coordinator {coordinator},"
    return f"{who} cannot join the others: {error}"


def first() -> bool:
    """Whether this is process 0, which reads, writes and prints."""
    return jax.process_index() == 0


def hush() -> None:
    """Let process 0 alone print to standard output, and there only what Python prints, not Gloo of its connections."""
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    target = os.dup(sys.stdout.fileno() if first() else null)
    sys.stdout = os.fdopen(target, "w", 1, sys.stdout.encoding, sys.stdout.errors)
    os.dup2(null, 1)
    os.close(null)


@contextmanager
def reaching() -> Iterator[None]:
    """ConnectionError for what JAX raises where another process does not answer: on CPUs, Gloo's ValueError."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        if jax.process_count() == 1:
            raise
        raise ConnectionError(f"another process does not answer ({str(error).splitlines()[0]})") from error


def fetch(tree: Any) -> Any:
    """A tree's arrays as NumPy arrays, at every process, wherever their parts are.

    All processes must call it together. Raises ConnectionError where one is lost.
    """
    leaves, structure = jax.tree.flatten(tree)
    with reaching():
        return structure.unflatten(jax.device_get([gathered(leaf) for leaf in leaves]))


def gathered(leaf: Any) -> Any:
    """An array with all its parts at every process."""
    if not isinstance(leaf, Array) or leaf.is_fully_addressable or leaf.is_fully_replicated:
        return leaf
    return everywhere(same, leaf)


def everywhere(function: Callable[[Array], Array], parts: Any) -> Array:
    """A function of an array that lies over a mesh, its value on every device."""
    return jax.jit(function, out_shardings=NamedSharding(parts.sharding.mesh, PartitionSpec()))(parts)


def same(x: Any) -> Any:
    """Itself."""
    return x


def total(x: Any) -> Any:
    """Over the processes."""
    return x.sum(0, dtype=x.dtype)


def each(own: np.ndarray) -> Array:
    """One array of every process, in order, as one array."""
    devices = {device.process_index: device for device in jax.devices()}
    mesh = Mesh([devices[number] for number in range(jax.process_count())], "process")
    return jax.make_array_from_process_local_data(NamedSharding(mesh, PartitionSpec("process")), own[None])


def share(content: bytes | None) -> bytes:
    """What process 0 gives, at every process; what another gives is not looked at."""
    if jax.process_count() == 1:
        return content or b""
    given = content or b""
    given = len(given).to_bytes(8, "big") + given if first() else b""
    got = broadcast(given[:BLOCK])
    while len(got) < 8 + int.from_bytes(got[:8], "big"):
        got += broadcast(given[len(got) : len(got) + BLOCK])
    return got[8 : 8 + int.from_bytes(got[:8], "big")]


def broadcast(block: bytes) -> bytes:
    """The one block that is not empty, filled up, at every process."""
    numbers = each(np.frombuffer(block.ljust(BLOCK, b"\0"), np.uint8))
    with reaching():
        return np.asarray(everywhere(total, numbers)).tobytes()


def require_same(what: str, value: str) -> None:
    """ValueError, at every process, unless all have the same."""
    digests = fetch(each(np.frombuffer(hashlib.sha256(value.encode()).digest(), np.uint8)))
    if (digests != digests[0]).any():
        raise ValueError(f"processes differ in their {what}: start all of them with the same")


def require_of_first(check: Callable[[], None]) -> None:
    """Make a check at process 0 alone; its ValueError is raised at every process."""
    complaint = b""
    if first():
        try:
            check()
        except ValueError as error:
            complaint = str(error).encode()
    if complaint := share(complaint):
        raise ValueError(complaint.decode())


def of_first(number: int) -> int:
    """A whole number that process 0 has, at every process; what another gives is not looked at."""
    return int(fetch(each(np.array(number, np.int32)))[0]) if jax.process_count() > 1 else int(number)


def copied(tree: Any, like: Any) -> Any:
    """A tree that process 0 has on the host, at every process; `like` is a template that all have."""
    if jax.process_count() == 1:
        return tree
    leaves, structure = jax.tree.flatten(like)
    given = jax.tree.leaves(tree) if first() else [None] * len(leaves)
    return structure.unflatten(shared_leaf(*pair) for pair in zip(given, leaves, strict=True))


def shared_leaf(leaf: Any, like: Any) -> Any:
    """One array at every process, as NumPy's; a typed key as one."""
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        numbers = shared_leaf(
            None if leaf is None else jax.random.key_data(leaf), jax.eval_shape(jax.random.key_data, like)
        )
        return jax.random.wrap_key_data(jnp.asarray(numbers), impl=jax.random.key_impl(like))
    content = share(None if leaf is None else np.asarray(leaf).tobytes())
    return np.frombuffer(content, like.dtype).reshape(like.shape)
