"""What PyTorch itself says of recurrent stacks, in float64: values and all gradients, as plain arrays.

`python tests/torch_reference.py` writes them to tests/golden/torch.npz, for test suites that run without PyTorch.
A case is "kind-shape", such as "lstm-3". Its arrays, where F counts all outputs and P layers times directions:
    xs [B, T, D]    weight/<name> as in the state_dict    loss/ys [B, T, F]    loss/h, loss/c [P, B, H]
and PyTorch's answers ys, h, c, grad/xs and grad/<name>, each for both batches in front (full, then ragged and packed).
The loss is the sum of ys, h and c weighted by loss/ys, loss/h and loss/c.
"""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "golden" / "torch.npz"
B, T, D, H = 4, 6, 2, 3
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "tanh": ("RNN", {"nonlinearity": "tanh"}),
    "relu": ("RNN", {"nonlinearity": "relu"}),
    "lstm": ("LSTM", {}),
    "gru": ("GRU", {}),
}
SHAPES = {"1": (1, False), "3": (3, False), "2bidirectional": (2, True)}  # layers, whether both directions
CASES = [f"{kind}-{shape}" for kind, shape in product(KINDS, SHAPES)]
LENGTHS = {"full": None, "ragged": [4, T, 1, 3]}  # out of order; the whole of T and a single step

Arrays = dict[str, np.ndarray]


def reference(case: str, seed: int) -> Arrays:
    """One case on weights and inputs drawn from the seed, by the installed PyTorch."""
    import torch

    kind, shape = case.split("-")
    (name, options), (layers, bidirectional) = KINDS[kind], SHAPES[shape]
    options = options | {"bidirectional": bidirectional, "batch_first": True, "dtype": torch.float64}
    module = getattr(torch.nn, name)(D, H, layers, **options)
    rng = np.random.default_rng([seed, CASES.index(case)])
    low = {name: 0.1 if "bias" in name else -0.7 for name in module.state_dict()}  # no dead ReLU layers
    weights = {f"weight/{name}": rng.uniform(low[name], 0.7, p.shape) for name, p in module.state_dict().items()}
    module.load_state_dict({key.removeprefix("weight/"): torch.tensor(weight) for key, weight in weights.items()})
    directions, states = 1 + bidirectional, "hc" if kind == "lstm" else "h"
    shapes = {"ys": (B, T, directions * H)} | dict.fromkeys(states, (layers * directions, B, H))
    given = {"xs": rng.normal(size=(B, T, D))} | {f"loss/{part}": rng.normal(size=s) for part, s in shapes.items()}
    answers = [answer(module, given, lengths) for lengths in LENGTHS.values()]
    return given | weights | {key: np.stack([each[key] for each in answers]) for key in answers[0]}


def committed(case: str, prefix: str = "") -> Arrays:
    """The state_dict of a case as it stands in the file, its keys after a prefix."""
    start = f"{case}/weight/"
    with np.load(GOLDEN) as file:
        return {prefix + key.removeprefix(start): file[key] for key in file.files if key.startswith(start)}


def answer(module: Any, given: Arrays, lengths: list[int] | None) -> Arrays:
    """Outputs, final states, and the gradients of their weighted sum to every weight and to xs."""
    import torch

    xs = torch.tensor(given["xs"], requires_grad=True)
    values = run(module, xs, lengths)
    weights = [torch.tensor(given[f"loss/{part}"]) for part in values]
    inputs = dict(module.named_parameters()) | {"xs": xs}
    grads = zip(inputs, torch.autograd.grad(list(values.values()), list(inputs.values()), weights), strict=True)
    return {key: a.detach().numpy() for key, a in (values | {f"grad/{name}": g for name, g in grads}).items()}


def run(module: Any, xs: Any, lengths: list[int] | None) -> dict[str, Any]:
    """Outputs ys [B, T, F] and final states h (and c) [P, B, H], the batch packed where it is ragged."""
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    if lengths is None:
        ys, final = module(xs)
    else:
        packed, final = module(pack_padded_sequence(xs, lengths, batch_first=True, enforce_sorted=False))
        ys, _ = pad_packed_sequence(packed, batch_first=True, total_length=T)
    return {"ys": ys} | ({"h": final[0], "c": final[1]} if isinstance(final, tuple) else {"h": final})


def write(path: Path = GOLDEN, seed: int = 0) -> None:
    """Write every case to one compressed file, with the version of PyTorch that it came from."""
    import torch

    arrays: dict[str, Any] = {"torch_version": np.array(torch.__version__)}
    for case in CASES:
        arrays |= {f"{case}/{key}": value for key, value in reference(case, seed).items()}
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    write()
