"""What the way back of a gradient reads, and what it makes for many steps before it can go on, read off its jaxpr."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import Jaxpr, JaxprEqn
from jax.interpreters.partial_eval import dce_jaxpr

from seqjax.jaxprs import equations


def way_back(function: Callable[[Any, Any], Any], params: Any, xs: Any) -> Jaxpr:
    """The pullback of function(params, xs) to the params, its inputs being what it reads; params and xs are shapes.

    What autodiff hands over and nobody reads, which XLA drops as well, is left out.
    """
    out, pullback = jax.eval_shape(lambda p, x: jax.vjp(lambda q: function(q, x), p), params, xs)
    jaxpr = jax.make_jaxpr(lambda pull, cotangent: pull(cotangent))(pullback, out).jaxpr
    return dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]


def bytes_read(jaxpr: Jaxpr) -> int:
    """Bytes of all inputs."""
    return sum(map(bytes_of_variable, jaxpr.invars))


def bytes_stacked(jaxpr: Jaxpr) -> int:
    """Bytes of what the scan that makes most of it stacks over time; 0 without a scan."""
    return max(map(stacked, scans(jaxpr)), default=0)


def scans(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """The scans in a jaxpr, wherever they stand."""
    return (equation for equation in equations(jaxpr) if equation.primitive.name == "scan")


def stacked(scan: JaxprEqn) -> int:
    """Bytes of what a scan stacks over time: the results with an axis more than they have in its body."""
    pairs: Any = zip(scan.outvars, scan.params["jaxpr"].jaxpr.outvars, strict=True)
    return sum(bytes_of_variable(out) for out, inside in pairs if out.aval.ndim > inside.aval.ndim)


def bytes_of_variable(variable: Any) -> int:
    """Bytes of one value of a jaxpr."""
    return variable.aval.size * variable.aval.dtype.itemsize
