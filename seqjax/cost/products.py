"""Multiply-adds of matrix products, counted in jaxprs."""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Jaxpr, JaxprEqn, jaxprs_in_params

from seqjax.core import Cell, Params

LOOPS_AND_KERNELS = ("while", "conv_general_dilated", "ragged_dot_general", "pallas_call", "fft")
FACTORISATIONS = ("cholesky", "lu", "householder_product", "geqrf", "triangular_solve", "eig", "eigh", "svd", "schur")
UNCOUNTED = (*LOOPS_AND_KERNELS, *FACTORISATIONS)


def count_products(function: Callable[..., Any], *args: Any) -> int:
    """Multiply-adds in the matrix products of one call; arguments may be arrays or shapes.

    A product in a scan counts once a step, and of the branches of a conditional the dearest counts. Raises ValueError
    for what cannot be counted: a loop of unknown length, a convolution, a transform, a factorisation, a kernel.
    """
    return of_jaxpr(jax.make_jaxpr(function)(*args).jaxpr)


def of_jaxpr(jaxpr: Jaxpr) -> int:
    """Multiply-adds of a sequence of equations."""
    return sum(of_equation(equation) for equation in jaxpr.eqns)


def of_equation(equation: JaxprEqn) -> int:
    """Multiply-adds of one equation, with those of the jaxprs inside it."""
    name, params = equation.primitive.name, equation.params
    if name in UNCOUNTED:
        raise ValueError(f"the multiply-adds of {name!r} cannot be counted: write the cell with matrix products")
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        left: Any = equation.invars[0].aval
        product: Any = equation.outvars[0].aval
        return product.size * math.prod(left.shape[i] for i in contracted)
    inside = [of_jaxpr(jaxpr) for jaxpr in jaxprs_in_params(params)]
    if name == "cond":
        return max(inside)
    return sum(inside) * (params["length"] if name == "scan" else 1)


def work_of(cell: Cell, params: Params, dtype: str) -> tuple[int, int, int]:
    """Multiply-adds of one step of one example: project; recur and update; read."""
    x = jax.ShapeDtypeStruct(params.W_ih.shape[1:], dtype)
    u = jax.eval_shape(cell.project, params, x)
    state = jax.eval_shape(cell.start, params)
    a = jax.eval_shape(cell.recur, params, state)
    return (
        count_products(cell.project, params, x),
        count_products(cell.recur, params, state) + count_products(cell.update, params, state, u, a),
        count_products(cell.read, params, state),
    )
