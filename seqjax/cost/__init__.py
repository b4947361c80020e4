"""What a recurrent network costs, before it is run: parameters, multiply-adds, memory.

Everything is read off the cell itself by abstract evaluation, so that it holds for every cell and allocates nothing:
parameters off the shapes that `init` returns, multiply-adds off the matrix products in the jaxprs of the cell's
functions, memory off the shapes of a trace and of what reverse-mode differentiation keeps of it. Memory is in bytes,
and a MB is 1e6 of them.
"""

from seqjax.cost.counts import Gradient, Memory, MultiplyAdds, Parameters
from seqjax.cost.products import count_products
from seqjax.cost.training import Cost, cost

__all__ = [
    "Cost",
    "Gradient",
    "Memory",
    "MultiplyAdds",
    "Parameters",
    "cost",
    "count_products",
]
