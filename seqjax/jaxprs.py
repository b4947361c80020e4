"""What stands in a jaxpr."""

from collections.abc import Iterator

from jax.extend.core import Jaxpr, JaxprEqn, jaxprs_in_params


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Every equation of a jaxpr and of the jaxprs inside it: of its calls, loops and branches."""
    for equation in jaxpr.eqns:
        yield equation
        for inside in jaxprs_in_params(equation.params):
            yield from equations(inside)
