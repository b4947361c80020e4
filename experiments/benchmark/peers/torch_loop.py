"""Training in PyTorch, one seed after the other, as a script would."""

from importlib import import_module
from typing import Any

from experiments.benchmark.peers.torch import MODULES, device, done

torch = import_module("torch")


def train(cell: str, recipe: Any, length: int, seeds: int, learning_rate: float, threads: int) -> list[float]:
    """Train so many seeds of a recall recipe; their last losses."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return done([train_one(cell, recipe, length, seed, learning_rate) for seed in range(seeds)])
    finally:
        torch.set_num_threads(before)


def train_one(cell: str, recipe: Any, length: int, seed: int, learning_rate: float) -> float:
    """One seed: recall of the first symbol by a layer and an affine readout of its last output."""
    torch.manual_seed(seed)
    task = recipe.task
    body = MODULES[cell](task.D, recipe.hidden, batch_first=True).to(device())
    head = torch.nn.Linear(recipe.hidden, task.K).to(device())
    adam = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=learning_rate, fused=True)
    loss = torch.zeros(())
    for _ in range(recipe.updates):
        tokens = torch.randint(task.D, (recipe.batch, length), device=device())
        xs = torch.nn.functional.one_hot(tokens, task.D).float()
        loss = torch.nn.functional.cross_entropy(head(body(xs)[0][:, -1]), tokens[:, 0])
        adam.zero_grad()
        loss.backward()
        adam.step()
    return float(loss.detach())
