"""What the way back of a gradient reads, and what it makes for many steps before it can go on, read off its jaxpr."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import Jaxpr, jaxprs_in_params
from jax.interpreters.partial_eval import dce_jaxpr


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
    return max(stacked(jaxpr), default=0)


def stacked(jaxpr: Jaxpr) -> Iterator[int]:
    """Bytes of what each scan stacks over time, wherever it stands."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield sum(map(bytes_of_variable, equation.outvars[equation.params["num_carry"] :]))
        for inside in jaxprs_in_params(equation.params):
            yield from stacked(inside)


def bytes_of_variable(variable: Any) -> int:
    """Bytes of one value of a jaxpr."""
    return variable.aval.size * variable.aval.dtype.itemsize
