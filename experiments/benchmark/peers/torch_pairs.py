"""An encoder-decoder in PyTorch, as one writes it: a packed encoder of two directions, a loop over a decoder's cell."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import numpy as np

from experiments.benchmark.peers.torch import MODULES, STEPS, device, done, tensor

torch: Any = import_module("torch")
BLANK = -100  # the target that PyTorch's cross-entropy leaves out


class Translator(torch.nn.Module):
    """Ours: embeddings, bridge, additive attention over the encoder's states, readout of state and context."""

    def __init__(self, cell: str, D: int, K: int, H: int, embedding: int, attention: int) -> None:
        super().__init__()
        self.states = 2 if cell == "lstm" else 1  # arrays of a state, h and perhaps c
        self.source, self.target = torch.nn.Embedding(D, embedding), torch.nn.Embedding(K, embedding)
        self.encoder = MODULES[cell](embedding, H, bidirectional=True, batch_first=True)
        self.bridge = torch.nn.Linear(2 * self.states * H, self.states * H)
        self.decoder = STEPS[cell](embedding + 2 * H, H)
        self.W = torch.nn.Linear(H, attention, bias=False)
        self.U = torch.nn.Linear(2 * H, attention, bias=False)
        self.v = torch.nn.Linear(attention, 1, bias=False)
        self.head = torch.nn.Linear(3 * H, K)

    def forward(self, source: Any, lengths: Any, fed: Any) -> Any:
        """Logits [B, T, K]."""
        pack, pad = torch.nn.utils.rnn.pack_padded_sequence, torch.nn.utils.rnn.pad_packed_sequence
        packed = pack(self.source(source), lengths, batch_first=True, enforce_sorted=False)
        hs, final = self.encoder(packed)
        hs = pad(hs, batch_first=True, total_length=source.shape[1])[0]
        halves = torch.stack(final, 1) if self.states == 2 else final[:, None]  # [direction, state, B, H]
        flat = halves.permute(2, 0, 1, 3).flatten(1)
        state: Any = torch.chunk(self.bridge(flat), self.states, 1)
        keys, blank = self.U(hs), torch.arange(source.shape[1], device=device()) >= lengths[:, None].to(device())
        seen = []
        for x in self.target(fed).unbind(1):
            e = self.v(torch.tanh(self.W(state[0])[:, None] + keys))[..., 0]
            α = e.masked_fill(blank, -torch.inf).softmax(1)
            context = torch.bmm(α[:, None], hs)[:, 0]
            new = self.decoder(torch.cat([x, context], 1), state if self.states == 2 else state[0])
            state = new if self.states == 2 else (new,)
            seen.append(torch.cat([state[0], context], 1))
        return self.head(torch.stack(seen, 1))


def weights_of(params: Any) -> dict[str, Any]:
    """Our arrays of such a model, params or gradients, under its names."""
    p, head = params.body, params.head
    (encoder,), (decoder,), (bridge,), align = p.encoder, p.decoder, p.bridge, p.align
    names = {"W_ih": "weight_ih", "W_hh": "weight_hh", "b_ih": "bias_ih", "b_hh": "bias_hh"}
    found = {"source.weight": p.source, "target.weight": p.target}
    for ours, its in names.items():
        found[f"encoder.{its}_l0"] = getattr(encoder.forward, ours)
        found[f"encoder.{its}_l0_reverse"] = getattr(encoder.backward, ours)
        found[f"decoder.{its}"] = getattr(decoder.forward, ours)
    found |= {"bridge.weight": bridge.W, "bridge.bias": bridge.b, "head.weight": head.W, "head.bias": head.b}
    return found | {"W.weight": align.W, "U.weight": align.U, "v.weight": align.v[None]}


def prepared(cell: str, params: Any, batch: Any, learning_rate: float) -> tuple[Callable[[], Any], Callable[[], None]]:
    """Calls that return loss and gradients by name, and None, having taken an Adam step; each on weights of its own."""
    weights = {name: tensor(array) for name, array in weights_of(params).items()}
    pair = jax.tree.map(np.asarray, batch.xs)
    (D, embedding), K, attention = params.body.source.shape, len(params.head.b), len(params.body.align.v)
    H = params.body.decoder[0].forward.W_hh.shape[1]
    source, lengths, fed = tensor(pair.source).long(), torch.tensor(pair.source_mask.sum(1)), tensor(pair.fed).long()
    targets = tensor(np.where(pair.mask, np.asarray(batch.targets), BLANK)).long()

    def made() -> Any:
        module = Translator(cell, D, K, H, embedding, attention).to(device())
        module.load_state_dict(weights)
        return module

    def loss_of(module: Any) -> Any:
        return torch.nn.functional.cross_entropy(module(source, lengths, fed).flatten(0, 1), targets.flatten())

    first, second = made(), made()
    optimizer = torch.optim.Adam(second.parameters(), lr=learning_rate, fused=True)

    def gradient() -> Any:
        loss, named = loss_of(first), dict(first.named_parameters())
        return done((loss.detach(), dict(zip(named, torch.autograd.grad(loss, named.values()), strict=True))))

    def training() -> None:
        optimizer.zero_grad()
        loss_of(second).backward()
        done(optimizer.step())

    return gradient, training
