"""Functions, losses and layers against values and gradients of PyTorch that tools/torch_values.py has recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf

FILE = np.load(Path(__file__).parent / "torch_values.npz")
NUMBERS = FILE["numbers"]
CASES = json.loads(FILE["text"].tobytes())


def scored_ctc(x: Any, **options: Any) -> Any:
    """The loss of scores: PyTorch's gradient is theirs, which the log-softmax passes on."""
    return wf.losses.ctc(wf.nn.log_softmax(x, 2), **options)


def run_recurrent(name: str) -> Any:
    """The layer, called with its states as arguments of their own."""
    class Called(getattr(wf.nn, name)):  # type: ignore[misc]
        def forward(self, x: Any, *states: Any, **options: Any) -> Any:
            return super().forward(x, states[0] if len(states) == 1 else states, **options)

    return Called


def make_weight_norm(kind: str, sizes: list[int], axis: int | None) -> Any:
    return wf.nn.WeightNorm(getattr(wf.nn, kind)(*sizes), axis=axis)


def make_spectral_norm(kind: str, sizes: list[int], n_power_iterations: int) -> Any:
    return wf.nn.SpectralNorm(getattr(wf.nn, kind)(*sizes), n_power_iterations=n_power_iterations)


OWN = {"make_weight_norm": make_weight_norm, "make_spectral_norm": make_spectral_norm,"scored_ctc": scored_ctc, **{
    f"run_{name}{cell}": run_recurrent(f"{name}{cell}") for name in ("RNN", "LSTM", "GRU") for cell in ("", "Cell")
}}


def load(value: Any) -> Any:
    if isinstance(value, dict) and "array" in value:
        start, shape, dtype = value["array"]
        return wf.array(NUMBERS[start : start + int(np.prod(shape))].reshape(shape).astype(dtype))
    if isinstance(value, list):
        return [load(v) for v in value]
    return {k: load(v) for k, v in value.items()} if isinstance(value, dict) else value


def find(name: str) -> Any:
    if name in OWN:
        return OWN[name]
    found: Any = wf
    for part in name.split("."):
        found = getattr(found, part)
    return found


def weigh(results: Any) -> Any:
    """The sum of all results with the weights cos(0), cos(1), ..."""
    results = results if isinstance(results, tuple | list) else [results]
    return sum((r * wf.cos(wf.arange(r.size, dtype=r.dtype)).reshape(r.shape)).sum() for r in results if r.dtype.kind == "f")


def near(got: Any, want: Any, name: str = "") -> None:
    want = want.numpy()
    assert got.shape == want.shape, name
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-8, atol=1e-9 * max(np.abs(want).max(initial=0), 1), err_msg=name)


@pytest.mark.drawn(60)
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda k: f"{CASES[k]['call']}-{k}")
def test_as_pytorch(number: int) -> None:
    case = {k: load(v) for k, v in CASES[number].items()}
    function, model = find(case["call"]), None
    if case["layer"] is not None:
        function = model = function(**case["layer"]).astype("float64")
        assert model.parameters().keys() == case["parameters"].keys()
        for name, a in model.parameters().items():
            a[...] = case["parameters"][name]
        model.train(case["training"])
    arguments = case["arguments"]
    places = [k for k, a in enumerate(arguments) if isinstance(a, wf.Array) and a.dtype.kind == "f"]

    def run(model: Any, *xs: Any) -> Any:
        results = (function if model is None else model)(*xs, **case["options"])
        results = flat(results)
        return weigh(results), results

    is_trained = model is not None and bool(model.parameters())
    call = wf.grad(run, argnums=(*[0] * is_trained, *(k + 1 for k in places)), has_aux=True)
    for f in (call, wf.jit(call)) if number % 4 == 0 else (call,):
        for name, a in case["buffers"].items():  # which a call may write
            getattr(model, name)[...] = a
        slopes, results = f(model, *arguments)
        for got, want in zip(results, case["results"], strict=True):
            near(got, want, "result")
        if is_trained:
            own, slopes = slopes[0].parameters(), slopes[1:]
            for name, want in case["parameter_slopes"].items():
                near(own[name], want, name)
        for k, got, want in zip(places, slopes, case["slopes"], strict=True):
            near(got, want, f"gradient of argument {k}")
    if number % 4 == 1:  # a batch of the same example twice
        axes = (None, *(0 if k in places else None for k in range(len(arguments))))
        twice = [wf.stack([a, a]) if k in places else a for k, a in enumerate(arguments)]
        results = wf.vmap(lambda *xs: run(model, *xs[1:])[1], in_axes=axes)(0, *twice)
        for got, want in zip(results, case["results"], strict=True):
            near(got[0], want, "under vmap")
            near(got[1], want, "under vmap")


def flat(results: Any) -> list[Any]:
    if isinstance(results, tuple | list):
        return [a for r in results for a in flat(r)]
    return [results]
