"""Where what is projected from the input meets the recurrent product: in sums, gate by gate, as far as a cell lets it.

Of a sum the loop reads one number instead of two, and on the way back it leaves one. An LSTM reads u + a alone; a GRU
reads it for its gates r and z, but u_n + r ⊙ a_n for its candidate.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Jaxpr, Literal


@dataclass(frozen=True)
class Meeting:
    """z, made of u and a [G*H, B] (or with time in front): (u + a of some gates, then u and a of the others).

    summed  gate by gate, whether u + a is all that is read; with none u and a stay as they are, whatever they are
    """

    summed: tuple[bool, ...]

    def z(self, u: Any, a: Any) -> tuple[Any, ...]:
        """(u + a,), (u + a of some, u of others, a of others), or (u, a)."""
        if not any(self.summed):
            return u, a
        if all(self.summed):
            return (u + a,)
        (u_sum, u_other), (a_sum, a_other) = self.sorted(u), self.sorted(a)
        return u_sum + a_sum, u_other, a_other

    def apart(self, z: tuple[Any, ...]) -> tuple[Any, Any]:
        """Some u and a that give this z."""
        if not any(self.summed):
            return z[0], z[1]
        if all(self.summed):
            return z[0], jnp.zeros_like(z[0])
        return self.merged(z[0], z[1]), self.merged(jnp.zeros_like(z[0]), z[2])

    @property
    def mixed(self) -> bool:
        """Whether some gates are summed and others are not."""
        return len(set(self.summed)) > 1

    def sorted(self, gates: Array) -> tuple[Array, Array]:
        """The gates that are summed, and the others; of [.., G*H, B], of a matrix [G*H, ..], or of a vector [G*H]."""
        axis = -min(gates.ndim, 2)
        each = list(zip(jnp.split(gates, len(self.summed), axis), self.summed, strict=True))
        some, others = ([gate for gate, summed in each if summed == which] for which in (True, False))
        return jnp.concatenate(some, axis), jnp.concatenate(others, axis)

    def merged(self, some: Array, others: Array) -> Array:
        """All gates in their order."""
        count = sum(self.summed)
        first, second = iter(jnp.split(some, count, -2)), iter(jnp.split(others, len(self.summed) - count, -2))
        return jnp.concatenate([next(first if summed else second) for summed in self.summed], -2)


def meeting_of(equation: Jaxpr, u: Any, a: Any) -> Meeting:
    """How an equation, whose last arguments are u and a, reads them."""
    if not len(jax.tree.leaves(u)) == len(jax.tree.leaves(a)) == 1:
        return Meeting((False,))
    whole_u, whole_a = equation.invars[-2:]
    splits = [reader(equation, whole) for whole in (whole_u, whole_a)]
    if all(split is not None and evenly(split) for split in splits) and len({len(s.outvars) for s in splits}) == 1:
        return Meeting(tuple(only_sum(equation, *pair) for pair in zip(*(s.outvars for s in splits), strict=True)))
    return Meeting((only_sum(equation, whole_u, whole_a),))


def reader(equation: Jaxpr, variable: Any) -> Any:
    """The one instruction that reads a variable, where there is one and the variable is no result."""
    readers = [eqn for eqn in equation.eqns if any(v is variable for v in eqn.invars)]
    return readers[0] if len(readers) == 1 and not any(v is variable for v in equation.outvars) else None


def evenly(instruction: Any) -> bool:
    """Whether an instruction splits a vector into equal parts."""
    return instruction.primitive.name == "split" and len(set(instruction.params["sizes"])) == 1


def only_sum(equation: Jaxpr, left: Any, right: Any) -> bool:
    """Whether two variables are read in their sum and nowhere else."""
    instruction = reader(equation, left)
    if instruction is None or instruction is not reader(equation, right) or instruction.primitive.name != "add":
        return False
    return not any(isinstance(v, Literal) for v in instruction.invars) and left is not right
