"""The linear map of an equation, with its products multiplied out: what the way back keeps, and no more.

Linearising a gate leaves chains of products, dz · σ · (1 - σ) · g ..., of which plain autodiff keeps every factor at
every step. Between two sums the factors are one number: an LSTM keeps 6 coefficients a unit instead of 12 factors,
    dc = f dc' + F dz_f + I dz_i + G dz_g        F = σ'(z_f) c', I = σ'(z_i) g, G = i tanh'(z_g)
    dh = O dz_o + C dc                           O = σ'(z_o) tanh(c), C = o tanh'(c)
and they are products of what is at hand when the step is taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Jaxpr, JaxprEqn, Literal
from jax.tree_util import Partial

CALLS = ("jit", "pjit", "closed_call")
Reference = tuple[bool, int]  # (whether it is a node, its place among the nodes or the coefficients)


@dataclass
class Linear:
    """A sum of nodes, each times a coefficient; None stands for 1."""

    terms: dict[int, Any]


@dataclass(frozen=True)
class Sum:
    """The instruction of a node that is a sum of (node, place of its coefficient)."""

    terms: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True)
class Apply:
    """The instruction of nodes that a primitive makes of operands, linear in those that are nodes."""

    equation: JaxprEqn
    operands: tuple[Reference, ...]


@dataclass
class Tape:
    """The instructions of a linear map, and the coefficients that they need."""

    nodes: int
    instructions: list[Sum | Apply] = field(default_factory=list)
    coefficients: list[Any] = field(default_factory=list)

    def keep(self, coefficient: Any) -> int | None:
        """The place of a coefficient, which is kept once however often it is used."""
        if coefficient is None:
            return None
        places = (place for place, kept in enumerate(self.coefficients) if kept is coefficient)
        place = next(places, len(self.coefficients))
        if place == len(self.coefficients):
            self.coefficients.append(coefficient)
        return place

    def node(self, linear: Linear) -> int:
        """The node that holds a sum; from here on the sum is that node."""
        if list(linear.terms.values()) != [None]:
            self.instructions.append(Sum(tuple((node, self.keep(c)) for node, c in linear.terms.items())))
            linear.terms = {self.nodes: None}
            self.nodes += 1
        return next(iter(linear.terms))

    def refer(self, value: Any) -> Reference:
        """Where a value will stand."""
        if isinstance(value, Linear):
            return True, self.node(value)
        return False, self.keep(jnp.asarray(value)) or 0


def multiplied_out(function: Callable[..., Any], *args: Any) -> tuple[Any, Partial]:
    """`jax.linearize(function, *args)`, with a linear map that keeps coefficients instead of factors.

    The map is a pytree whose leaves are the coefficients, so that a scan can stack it over time.
    """
    out, linear = jax.linearize(function, *args)
    factors, tree = jax.tree.flatten(linear)
    closed, shape = jax.make_jaxpr(lambda fs, *ds: tree.unflatten(fs)(*ds), return_shape=True)(factors, *args)
    tape = Tape(nodes=len(jax.tree.leaves(args)))
    tangents = [Linear({node: None}) for node in range(tape.nodes)]
    outputs = tuple(tape.refer(value) for value in record(tape, closed.jaxpr, closed.consts, [*factors, *tangents]))
    return out, Partial(
        partial(evaluate, tuple(tape.instructions), outputs, jax.tree.structure(shape)), tape.coefficients
    )


def record(tape: Tape, jaxpr: Jaxpr, consts: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Follow a jaxpr through constants, which are computed, and sums, which are kept as such."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *values], strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for equation in jaxpr.eqns:
        outs = follow(tape, equation, [read(variable) for variable in equation.invars])
        known |= dict(zip(equation.outvars, outs, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def follow(tape: Tape, equation: JaxprEqn, values: list[Any]) -> list[Any]:
    """One equation of a jaxpr: the values of its results."""
    name, params = equation.primitive.name, equation.params
    linear = [isinstance(value, Linear) for value in values]
    if name in CALLS:
        return record(tape, params["jaxpr"].jaxpr, params["jaxpr"].consts, values)
    if not any(linear):
        return listed(equation, equation.primitive.bind(*values, **params))
    if name == "mul" and sum(linear) == 1:
        return [scaled(tape, values[linear.index(True)], values[linear.index(False)])]
    if name in ("add", "add_any", "sub") and all(linear):
        return [added(values[0], values[1], subtract=name == "sub")]
    if name == "neg":
        return [Linear({node: negative(c) for node, c in values[0].terms.items()})]
    if name == "select_n" and not linear[0] and len(values) == 3:
        return [chosen(equation, *values)]
    tape.instructions.append(Apply(equation, tuple(tape.refer(value) for value in values)))
    first, tape.nodes = tape.nodes, tape.nodes + len(equation.outvars)
    return [Linear({node: None}) for node in range(first, tape.nodes)]


def listed(equation: JaxprEqn, result: Any) -> list[Any]:
    """The results of a primitive as a list."""
    return list(result) if equation.primitive.multiple_results else [result]


def scaled(tape: Tape, linear: Linear, factor: Any) -> Linear:
    """A sum times a constant; where there are several terms they are summed first, as one coefficient is less to keep
    than one for each."""
    if len(linear.terms) > 1:
        tape.node(linear)
    return Linear({node: factor if c is None else c * factor for node, c in linear.terms.items()})


def added(left: Linear, right: Linear, *, subtract: bool) -> Linear:
    """The sum or difference of two sums, the coefficients of a common node added."""
    terms = dict(left.terms)
    for node, c in right.terms.items():
        c = negative(c) if subtract else c
        terms[node] = one(terms[node]) + one(c) if node in terms else c
    return Linear(terms)


def one(coefficient: Any) -> Any:
    """A coefficient as a number."""
    return 1.0 if coefficient is None else coefficient


def negative(coefficient: Any) -> Any:
    """Minus a coefficient."""
    return -one(coefficient)


def chosen(equation: JaxprEqn, which: Array, no: Any, yes: Any) -> Linear:
    """One of two sums at every place; a constant in a linear map can only be 0."""
    aval: Any = equation.outvars[0].aval
    cases = [value.terms if isinstance(value, Linear) else {} for value in (no, yes)]

    def coefficient(node: int) -> Array:
        sides = (jnp.broadcast_to(one(case[node]) if node in case else 0, aval.shape) for case in cases)
        return jax.lax.select_n(which, *(side.astype(aval.dtype) for side in sides))

    return Linear({node: coefficient(node) for node in cases[0] | cases[1]})


def evaluate(
    instructions: tuple[Sum | Apply, ...], outputs: tuple[Reference, ...], tree: Any, coefficients: Any, *tangents: Any
) -> Any:
    """Apply a linear map that was multiplied out."""
    nodes = jax.tree.leaves(tangents)

    def value(reference: Reference) -> Any:
        return nodes[reference[1]] if reference[0] else coefficients[reference[1]]

    for instruction in instructions:
        if isinstance(instruction, Sum):
            terms = [nodes[node] if c is None else coefficients[c] * nodes[node] for node, c in instruction.terms]
            nodes.append(sum(terms[1:], terms[0]))
        else:
            equation = instruction.equation
            result = equation.primitive.bind(*map(value, instruction.operands), **equation.params)
            nodes.extend(listed(equation, result))
    return tree.unflatten([value(reference) for reference in outputs])
