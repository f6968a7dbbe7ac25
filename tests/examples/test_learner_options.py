"""The learner's names: every activation and optimizer is found, and options arrive under weft's own names."""

from __future__ import annotations

import numpy as np
import pytest
import seeds  # noqa: F401  puts the programs' folder on the path

import weft as wf
from learner.options import ACTIVATIONS, OPTIMIZERS, activation, optimizer


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_computes(name: str) -> None:
    layer = activation(name, {"threshold": 0.1, "value": 2.0} if name == "threshold" else None)
    x = wf.asarray(np.random.default_rng().normal(size=(4, 5)).astype(np.float32))
    y = layer(x).numpy()
    assert y.shape == (4, 5) and np.isfinite(y).all()


@pytest.mark.parametrize("name, dic, kind, settings", [
    ("Leaky-ReLU", {"alpha": 0.2}, wf.nn.LeakyReLU, {"negative_slope": 0.2}),
    ("hard_shrink", {"lambda": 0.7}, wf.nn.Hardshrink, {"lambd": 0.7}),
    ("acon-b", {"p": 0.5}, wf.nn.AconB, {}), ("SWISH", {"beta": 2.0}, wf.nn.Swish, {"beta": 2.0}),
    ("bent identity", None, wf.nn.BentIdentity, {}),
])
def test_names_and_options_of_activations(name, dic, kind, settings) -> None:
    layer = activation(name, dic)
    assert isinstance(layer, kind) and {k: getattr(layer, k) for k in settings} == settings


@pytest.mark.parametrize("name, dic, kind, settings", [
    ("SGD", None, wf.optim.SGD, {"lr": 0.01, "momentum": 0.0}),
    ("momentum", {"eta": 0.1}, wf.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.9, "nesterov": False}),
    ("nag", {"mu": 0.8}, wf.optim.SGD, {"momentum": 0.8, "nesterov": True}),
    ("AdaGrad", None, wf.optim.AdaGrad, {"lr": 1e-3}),
    ("RMSprop", None, wf.optim.RMSprop, {"lr": 0.01, "rho": 0.99}),
    ("Ada-Delta", {"rho": 0.9}, wf.optim.AdaDelta, {"rho": 0.9, "eps": 1e-6}),
    ("Adam", {"alpha": 2e-3, "beta_1": 0.8}, wf.optim.Adam, {"lr": 2e-3, "betas": (0.8, 0.999)}),
    ("RMSpropGraves", None, wf.optim.RMSpropGraves, {"lr": 1e-4, "rho": 0.95}),
    ("SMORMS3", None, wf.optim.SMORMS3, {"lr": 1e-3}),
    ("AdaMax", None, wf.optim.AdaMax, {"lr": 2e-3}),
    ("Nadam", None, wf.optim.Nadam, {"lr": 2e-3, "betas": (0.975, 0.999)}),
    ("Eve", {"c": 5.0}, wf.optim.Eve, {"c": 5.0, "betas": (0.9, 0.999, 0.999)}),
    ("SantaE", {"burnin": 7}, wf.optim.SantaE, {"burnin": 7}), ("SantaSSS", None, wf.optim.SantaSSS, {}),
    ("AMSGrad", None, wf.optim.AMSGrad, {"lr": 1e-3}),
    ("AdaBound", {"final_lr": 0.2}, wf.optim.AdaBound, {"final_lr": 0.2}),
    ("AMSBound", None, wf.optim.AMSBound, {"final_lr": 0.1}),
    ("AdaBelief", None, wf.optim.AdaBelief, {"lr": 1e-3}),
])
def test_names_and_defaults_of_optimizers(name, dic, kind, settings) -> None:
    found = optimizer(name, dic)
    assert type(found) is kind and {k: getattr(found, k) for k in settings} == settings


def test_sam_has_an_optimizer_inside() -> None:
    found = optimizer("SAM", {"rho": 0.1, "opt": "Adam", "opt_dic": {"eta": 0.5}})
    assert isinstance(found, wf.optim.SAM) and isinstance(found.optimizer, wf.optim.Adam) and (found.rho, found.lr) == (0.1, 0.5)


def test_the_table_is_the_articles() -> None:
    assert len({c.name for c in OPTIMIZERS.values()}) == 19 and len({c.name for c in ACTIVATIONS.values()}) == 29
