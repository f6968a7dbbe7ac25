"""The learner's names for activations, optimizers and error functions, and weft's own behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft import nn, optim
from weft.array import Array
from weft.functions.elementwise.ufuncs import log, maximum
from weft.losses import binary_cross_entropy_with_logits, cross_entropy


@dataclass(frozen=True)
class Choice:
    """One entry of a table: what makes it, and option name (plain) -> the maker's own name."""

    name: str
    make: Callable[..., Any]
    options: Mapping[str, str]


def plain(word: str) -> str:
    """A name as it is looked up: capitals and punctuation do not count."""
    return "".join(c for c in word.lower() if c.isalnum())


def _table(*choices: Choice, **aliases: str) -> dict[str, Choice]:
    table = {plain(c.name): c for c in choices}
    return table | {alias: table[plain(name)] for alias, name in aliases.items()}


def _same(*names: str) -> dict[str, str]:
    return {plain(name): name for name in names}


_LAMBDA = {"lambda": "lambd", "lambd": "lambd"}

ACTIVATIONS = _table(
    Choice("step", nn.Step, {}), Choice("identity", nn.Identity, {}), Choice("bentIdentity", nn.BentIdentity, {}),
    Choice("hardShrink", nn.Hardshrink, _LAMBDA), Choice("softShrink", nn.Softshrink, _LAMBDA),
    Choice("threshold", nn.Threshold, _same("threshold", "value")), Choice("sigmoid", nn.Sigmoid, {}),
    Choice("hardSigmoid", nn.Hardsigmoid, {}), Choice("logSigmoid", nn.LogSigmoid, {}), Choice("tanh", nn.Tanh, {}),
    Choice("tanhShrink", nn.Tanhshrink, {}), Choice("hardtanh", nn.Hardtanh, {}), Choice("ReLU", nn.ReLU, {}),
    Choice("ReLU6", nn.ReLU6, {}), Choice("leakyReLU", nn.LeakyReLU, {"alpha": "negative_slope"}),
    Choice("ELU", nn.ELU, _same("alpha")), Choice("SELU", nn.SELU, {}), Choice("CELU", nn.CELU, _same("alpha")),
    Choice("softmax", nn.Softmax, {}), Choice("softmin", nn.Softmin, {}), Choice("logSoftmax", nn.LogSoftmax, {}),
    Choice("softplus", nn.Softplus, {}), Choice("softsign", nn.Softsign, {}), Choice("Swish", nn.Swish, _same("beta")),
    Choice("Mish", nn.Mish, {}), Choice("tanhExp", nn.TanhExp, {}),
    Choice("ACON-A", nn.AconA, {}), Choice("ACON-B", nn.AconB, _same("p")), Choice("ACON-C", nn.AconC, {}),
    lrelu="leakyReLU",
)

_RATE = {"eta": "lr", "alpha": "lr", "lr": "lr", "weightdecay": "weight_decay"}
_BETAS = _RATE | {"beta1": "beta1", "beta2": "beta2", "eps": "eps"}
_ROOT = _RATE | {"rho": "rho", "eps": "eps"}
_MOMENTUM = {"mu": "momentum", "momentum": "momentum"}
_SANTA = _RATE | _same("sigma", "eps", "anneal", "burnin", "c", "n")


def _of_betas(kind: Callable[..., optim.Optimizer], **usual: Any) -> Callable[..., optim.Optimizer]:
    """An optimizer whose decays are given one by one."""
    def make(**options: Any) -> optim.Optimizer:
        given = usual | options
        betas = [given.pop("beta1", 0.9), given.pop("beta2", 0.999)]
        if "beta3" in given:
            betas.append(given.pop("beta3"))
        return kind(betas=tuple(betas), **given)

    return make


def _momentum(lr: float = 0.01, momentum: float = 0.9, **options: Any) -> optim.Optimizer:
    return optim.SGD(lr, momentum=momentum, dampening=momentum, **options)


def _nesterov(lr: float = 0.01, momentum: float = 0.9, **options: Any) -> optim.Optimizer:
    return optim.SGD(lr, momentum=momentum, nesterov=True, **options)


def _adagrad(lr: float = 1e-3, **options: Any) -> optim.Optimizer:
    return optim.AdaGrad(lr, **options)


def _adadelta(rho: float = 0.95, **options: Any) -> optim.Optimizer:
    return optim.AdaDelta(rho=rho, **options)


def _sam(rho: float = 0.05, opt: str = "SGD", opt_dic: Mapping[str, Any] | None = None) -> optim.Optimizer:
    return optim.SAM(optimizer(opt, opt_dic), rho)


_BOUND = _BETAS | _same("final_lr", "gamma")

OPTIMIZERS = _table(
    Choice("SGD", optim.SGD, _RATE), Choice("MSGD", _momentum, _RATE | _MOMENTUM), Choice("NAG", _nesterov, _RATE | _MOMENTUM),
    Choice("AdaGrad", _adagrad, _RATE | _same("eps")), Choice("RMSprop", optim.RMSprop, _ROOT),
    Choice("AdaDelta", _adadelta, _ROOT), Choice("Adam", _of_betas(optim.Adam), _BETAS),
    Choice("RMSpropGraves", optim.RMSpropGraves, _ROOT | _MOMENTUM), Choice("SMORMS3", optim.SMORMS3, _RATE | _same("eps")),
    Choice("AdaMax", _of_betas(optim.AdaMax), _BETAS), Choice("Nadam", _of_betas(optim.Nadam, beta1=0.975), _BETAS),
    Choice("Eve", _of_betas(optim.Eve, beta3=0.999), _BETAS | _same("beta3", "c")), Choice("SantaE", optim.SantaE, _SANTA),
    Choice("SantaSSS", optim.SantaSSS, _SANTA), Choice("AMSGrad", _of_betas(optim.AMSGrad), _BETAS),
    Choice("AdaBound", _of_betas(optim.AdaBound), _BOUND), Choice("AMSBound", _of_betas(optim.AMSBound), _BOUND),
    Choice("AdaBelief", _of_betas(optim.AdaBelief), _BETAS),
    Choice("SAM", _sam, {"rho": "rho", "opt": "opt", "optdic": "opt_dic"}),
    momentum="MSGD",
)


def _found(table: Mapping[str, Any], word: Any, option: str) -> Any:
    choice = table.get(plain(word)) if isinstance(word, str) else None
    if choice is None:
        names = list(dict.fromkeys(getattr(c, "name", key.capitalize()) for key, c in table.items()))
        raise ValueError(f"{option}={word!r} is unknown; there are {', '.join(names)}")
    return choice


def _made(table: Mapping[str, Choice], word: Any, dic: Mapping[str, Any] | None, option: str) -> Any:
    choice = _found(table, word, option)
    own = {}
    for key, value in (dic or {}).items():
        name = choice.options.get(plain(str(key)))
        if name is None:
            fits = ", ".join(choice.options) or "none"
            raise ValueError(f"{option}_dic={dict(dic or {})!r}: {choice.name} has no option {key!r}; its options: {fits}")
        own[name] = value
    try:
        return choice.make(**own)
    except TypeError as error:
        raise TypeError(f"{option}={word!r} with {option}_dic={dict(dic or {})!r}: {error}") from None


def activation(act: str, act_dic: Mapping[str, Any] | None = None) -> nn.Module:
    """The layer of an activation.

    Raises
    ------
    ValueError
        when the name or an option is unknown; the message lists what there is.

    Examples
    --------
    >>> from learner.options import activation
    >>> activation("LReLU", {"alpha": 0.1})
    LeakyReLU(negative_slope=0.1)
    """
    return _made(ACTIVATIONS, act, act_dic, "act")


def optimizer(opt: str, opt_dic: Mapping[str, Any] | None = None) -> optim.Optimizer:
    """An optimizer, with the learner's names of options ("eta" is the learning rate) and defaults.

    Raises
    ------
    ValueError
        when the name or an option is unknown; the message lists what there is.

    Examples
    --------
    >>> from learner.options import optimizer
    >>> optimizer("adam", {"eta": 0.01}).lr
    0.01
    """
    return _made(OPTIMIZERS, opt, opt_dic, "opt")


def square(act: nn.Module, scores: Array, target: Array) -> Array:
    """Half the sum of squared differences of a sample, mean over samples: its gradient is y - t."""
    difference = act(scores) - target
    return 0.5 * (difference * difference).sum() / scores.shape[0]


def binary(act: nn.Module, scores: Array, target: Array) -> Array:
    """Binary cross entropy, summed over the outputs, mean over samples."""
    if isinstance(act, nn.Sigmoid):
        return binary_cross_entropy_with_logits(scores, target, reduction="sum") / scores.shape[0]
    y = act(scores)
    return -(target * log(maximum(y, 1e-7)) + (1 - target) * log(maximum(1 - y, 1e-7))).sum() / scores.shape[0]


def cross(act: nn.Module, scores: Array, target: Array) -> Array:
    """Cross entropy, summed over the outputs, mean over samples."""
    if isinstance(act, nn.Softmax):
        return cross_entropy(scores, target)
    return -(target * log(maximum(act(scores), 1e-7))).sum() / scores.shape[0]


ERRORS: dict[str, Callable[[nn.Module, Array, Array], Array]] = {"square": square, "binary": binary, "cross": cross}


def error_function(err_func: str) -> Callable[[nn.Module, Array, Array], Array]:
    """The function (activation, scores before it, targets) -> error.

    Raises
    ------
    ValueError
        when the name is unknown.
    """
    return _found(ERRORS, err_func, "err_func")
