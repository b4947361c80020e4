"""What the fast engine has to know of a cell, read off its equation."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr

from seqjax.core import Cell, Params, State
from seqjax.jaxprs import equations

PRODUCTS = ("dot_general", "conv_general_dilated", "ragged_dot_general")


def of_one(tree: Any) -> Any:
    """The shapes and dtypes of one example of a batch, batch last."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[:-1], a.dtype), tree)


def equation_of(cell: Cell, params: Params, state: State, u: Any, a: Any) -> Jaxpr:
    """`update` of one example of a batch; the last of its arguments are u and a."""
    return jax.make_jaxpr(cell.update)(params, *map(of_one, (state, u, a))).jaxpr


def holds_product(jaxpr: Jaxpr) -> bool:
    """Whether a product of matrices stands anywhere in a jaxpr."""
    return any(equation.primitive.name in PRODUCTS for equation in equations(jaxpr))


def fits(cell: Cell, params: Params, state: State, u: Any, a: Any) -> bool:
    """Whether a cell has a recurrent product to take out of the loop, and an `update` whose linear map is one of
    numbers: it reads no matrix of the params, has no product of matrices, and no integers go through it."""
    jaxpr = equation_of(cell, params, state, u, a)
    leaves = jax.tree.leaves(params)
    matrices = [variable for variable, leaf in zip(jaxpr.invars, leaves, strict=False) if leaf.ndim > 1]
    read = [variable for eqn in jaxpr.eqns for variable in eqn.invars] + list(jaxpr.outvars)
    real = all(jnp.issubdtype(leaf.dtype, jnp.inexact) for leaf in jax.tree.leaves((params, state, u, a)))
    unread = not any(variable is other for variable in matrices for other in read)
    return bool(jax.tree.leaves(a)) and real and unread and not holds_product(jaxpr)
