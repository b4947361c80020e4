"""What penalties share: their weight, and what they ask of a network."""

from collections.abc import Mapping
from numbers import Real
from typing import Any

from seqjax.network import Network, require_recurrent


def require_weight(weight: Any) -> None:
    """ValueError unless a weight is a finite number above 0, or the name of a hyperparameter."""
    number = isinstance(weight, Real) and not isinstance(weight, bool)
    if not isinstance(weight, str) and not (number and 0 < float(weight) < float("inf")):
        raise ValueError(
            f"weight must be a finite number above 0, or the name of a hyperparameter, got {weight!r}: "
            "leave the penalty out for none"
        )


def weight_of(weight: Any, hyper: Mapping[str, Any]) -> Any:
    """The number that a weight is, or names; ValueError for a hyperparameter that is not given."""
    if not isinstance(weight, str):
        return weight
    if weight not in hyper:
        raise ValueError(f"the weight of a penalty is hyperparameter {weight!r}, got {sorted(hyper)}: train with it")
    return hyper[weight]


def require_own_steps(network: Network) -> None:
    """ValueError where there are no steps of a recurrence, and for zoneout, under which one is not the cell's own."""
    require_recurrent(network, "a penalty on the steps' Jacobians")
    if network.dropout is not None and network.dropout.zoneout:
        raise ValueError(f"zoneout={network.dropout.zoneout} changes every step's Jacobian: leave zoneout out")
