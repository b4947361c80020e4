"""A decoder alone: prompts, states that are carried on, and what cannot be gone on from."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracle import close, noise_like, same

import seqjax
from seqjax.seq2seq import generate

K, H, END = 5, 4, 4
NET = seqjax.network(seqjax.lstm(), inputs="embedding", embedding=3, readout="every", layers=2)
PARAMS = noise_like(NET.init, K, H, K, scale=0.8)
PROMPT, LENGTHS = jnp.array([[1, 3, 2], [2, 99, 99]]), np.array([3, 1])


def loop(prompt, n):
    """n symbols after a prompt, each the likeliest after all before it."""
    text = [int(symbol) for symbol in prompt]
    for _ in range(n):
        padded = jnp.asarray(text + [0] * (len(prompt) + n - len(text)))
        text.append(int(EVERY(padded)[len(text) - 1].argmax()))
        if text[-1] == END:
            break
    return text[len(prompt) :]


EVERY = jax.jit(lambda xs: NET.apply(PARAMS, xs).every)


def test_what_is_generated_is_the_likeliest_after_all_before():
    """Each prompt by its own length, until its end symbol or the limit."""
    found, _ = generate(NET, PARAMS, prompt=PROMPT, lengths=LENGTHS, limit=6, end=END)
    for row, n in enumerate(LENGTHS):
        want = loop(PROMPT[row, :n], 6)
        m = int(found.lengths[row])
        assert found.tokens[row, :m].tolist() == [symbol for symbol in want if symbol != END]
        assert bool(found.finished[row]) == (END in want)


def test_a_state_goes_on_where_it_was():
    """Six symbols are two and then four: the state has read all but the last, which is the next prompt."""
    whole, state = generate(NET, PARAMS, prompt=PROMPT[0], limit=6)
    first, middle = generate(NET, PARAMS, prompt=PROMPT[0], limit=2)
    rest, last = generate(NET, PARAMS, prompt=first.tokens[-1:], state=middle, limit=4)
    assert whole.tokens.tolist() == first.tokens.tolist() + rest.tokens.tolist()
    close(last, state)
    read = jnp.concatenate([PROMPT[0], whole.tokens[:-1]])
    close(state, NET.apply(PARAMS, read).body.final)
    close(whole.log_probability, first.log_probability + rest.log_probability)
    assert (whole.lengths, bool(whole.finished)) == (6, False)


def test_draws_are_those_of_the_row():
    """Sampled in a batch or alone; the same key says the same."""
    keys = jax.random.split(jax.random.key(0), 2)
    both, _ = generate(NET, PARAMS, keys, prompt=PROMPT[:, :1], limit=5, end=END, temperature=2.0)
    alone, _ = generate(NET, PARAMS, keys[1:], prompt=PROMPT[1:, :1], limit=5, end=END, temperature=2.0)
    same(alone.tokens[0], both.tokens[1])
    plain, _ = generate(NET, PARAMS, prompt=PROMPT[:, :1], limit=5, end=END)
    cold, _ = generate(NET, PARAMS, keys, prompt=PROMPT[:, :1], limit=5, end=END, temperature=1e-9)
    same(cold.tokens, plain.tokens)


ONE = seqjax.network(seqjax.lstm(), inputs="onehot", readout="every")
BOTH = seqjax.network(seqjax.lstm(), inputs="onehot", readout="every", bidirectional=True)
REFUSED = {
    "depth": (NET, {"state": NET.apply(PARAMS, PROMPT[0]).body.final[:1]}, "state must hold 2 states, .* got 1"),
    "size": (
        NET,
        {"state": jax.tree.map(lambda s: s[:2], NET.apply(PARAMS, PROMPT[0]).body.final)},
        r"state must be like the cell's start\(params\)",
    ),
    "empty": (NET, {"prompt": jnp.zeros(0, int)}, "prompt must hold at least one symbol"),
    "no-symbol": (NET, {"prompt": PROMPT, "lengths": [1, 0]}, "prompt must hold at least one symbol in every row"),
    "outside": (NET, {"prompt": jnp.array([7])}, r"xs must hold tokens in 0\.\.4, got 7"),
    "limit": (NET, {"limit": 0}, "limit must be"),
    "end": (NET, {"end": 5}, r"end must be the number of a symbol, 0\.\.4, got 5"),
    "cold": (NET, {"temperature": 0.0}, "temperature must be a number above 0"),
    "directions": (BOTH, {}, "a bidirectional network cannot stream"),
    "readout": (seqjax.network(seqjax.lstm(), inputs="onehot"), {}, 'readout="every"'),
    "recurrence": (seqjax.pooled(inputs="onehot", readout="every"), {}, "generate needs a recurrent network"),
    "network": (seqjax.lstm(), {}, "network must be a Network"),
}


@pytest.mark.parametrize(("network", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(network, options, message):
    """In one line."""
    params = (
        PARAMS
        if network is NET or not hasattr(network, "init")
        else network.init(jax.random.key(0), K, H, K)
        if isinstance(network, seqjax.Network)
        else None
    )
    with pytest.raises(ValueError, match=message):
        generate(network, params, **{"prompt": PROMPT[0], "limit": 3, **options})
