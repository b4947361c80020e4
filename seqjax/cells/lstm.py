"""Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate by Gers et al. 2000), and its options.

c_t = σ(f) ⊙ c_{t-1} + σ(i) ⊙ tanh(g)
h_t = σ(o) ⊙ tanh(c_t)
"""

from seqjax.cells.gates import CANDIDATE, COUPLED, FORGET, OUTPUT, memory
from seqjax.core import Cell, factory, require_switches


@factory
def lstm(
    *, forget_bias: float | None = 1.0, peephole: bool = False, coupled: bool = False, norm: str | None = None
) -> Cell:
    """LSTM cell with gates i, f, g, o in PyTorch's order, equal to `nn.LSTM` without options.

    forget_bias   the effective initial bias of the forget gate, b_ih + b_hh; None keeps the uniform draw
    peephole      i and f also see c_{t-1}, and o sees c_t, through a vector each (Gers and Schmidhuber 2000)
    coupled       one gate decides both, forget = 1 - input (Greff et al. 2017); the gates are then i, g, o
    norm="layer"  normalises every gate's pre-activation, inside the loop; ValueError for another
    """
    require_switches(coupled=coupled)
    name, keep = ("lstm-coupled", COUPLED) if coupled else ("lstm", FORGET)
    options = {"peephole": peephole, "norm": norm, "forget_bias": forget_bias, "name": name}
    return memory(keep=keep, write=CANDIDATE, show=OUTPUT, **options)
