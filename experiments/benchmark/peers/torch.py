"""PyTorch: `nn.RNN`, `nn.LSTM` and `nn.GRU`, on the processor, or on a GPU where JAX uses one."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import numpy as np

from experiments.benchmark.peers.seqjax import CELLS
from seqjax.core import Affine
from seqjax.interop.torch import export
from seqjax.network import NetworkParams
from seqjax.stack import Layer

torch = import_module("torch")
MODULES = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
STEPS = {"rnn": torch.nn.RNNCell, "lstm": torch.nn.LSTMCell, "gru": torch.nn.GRUCell}


def usable() -> bool:
    """Whether PyTorch can compute on the kind of device that JAX uses."""
    return jax.default_backend() == "cpu" or torch.cuda.is_available()


def device() -> str:
    """Where PyTorch computes."""
    return "cpu" if jax.default_backend() == "cpu" else "cuda"


def done(result: Any) -> Any:
    """The result, once it is there."""
    if device() == "cuda":
        torch.cuda.synchronize()
    return result


def tensor(array: Any) -> Any:
    """Our array in memory of its own."""
    return torch.tensor(np.asarray(array), device=device())


def module_of(cell: str, params: Affine) -> Any:
    """The module with our weights, which takes xs [B, T, D]."""
    gates_H, D = params.W_ih.shape
    module = MODULES[cell](D, gates_H // len(CELLS[cell].gates), batch_first=True)
    module.load_state_dict(export(CELLS[cell], (Layer(params),)))
    return module.to(device())


def prepared(cell: str, params: Affine, xs: Any, kind: str) -> Callable[[], Any]:
    """A call that returns outputs; loss and gradients; or None, having taken a training step."""
    module, inputs = module_of(cell, params), tensor(xs)
    weights = list(module.parameters())
    optimizer = torch.optim.Adam(weights, fused=True)

    def forward() -> Any:
        with torch.no_grad():
            return done(module(inputs)[0])

    def gradient() -> Any:
        loss = module(inputs)[0].square().mean()
        return done((loss.detach(), torch.autograd.grad(loss, weights)))

    def training() -> None:
        optimizer.zero_grad()
        module(inputs)[0].square().mean().backward()
        done(optimizer.step())

    return {"forward": forward, "gradient": gradient, "training": training}[kind]


def step(cell: str, params: NetworkParams) -> Callable[[np.ndarray], Any]:
    """A cell and a readout on a batch of one, without gradients: event [D] to answer [K]."""
    (layer,), (K, H) = params.body, params.head.W.shape
    unit, head = STEPS[cell](layer.forward.W_ih.shape[1], H), torch.nn.Linear(H, K)
    unit.load_state_dict({name.removesuffix("_l0"): a for name, a in export(CELLS[cell], params.body).items()})
    head.load_state_dict({"weight": tensor(params.head.W), "bias": tensor(params.head.b)})
    unit, head, state = unit.to(device()), head.to(device()), None

    @torch.inference_mode()
    def take(x: np.ndarray) -> Any:
        nonlocal state
        state = unit(torch.from_numpy(x)[None].to(device()), state)
        return head(state[0] if cell == "lstm" else state)[0].cpu()

    return take
