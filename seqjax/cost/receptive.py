"""How far back a stack of causal convolutions sees."""

from collections.abc import Sequence

from seqjax.core import require_sizes


def receptive_field(kernel: int, dilations: Sequence[int]) -> int:
    """Inputs that one output depends on, itself included: 1 + (kernel - 1) Σ dilations, one dilation a layer.

    Raises ValueError for a kernel or dilations below 1, and for no layers.
    """
    require_sizes(kernel=kernel, layers=len(dilations), **{f"dilations[{i}]": d for i, d in enumerate(dilations)})
    return 1 + (kernel - 1) * sum(dilations)
