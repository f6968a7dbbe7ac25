"""What every optimizer shares: state beside each parameter, kept in Cells, so that a jitted step updates it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from numbers import Real
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.parse import spelled
from weft.eager.materialise import known
from weft.errors import DTypeError, TraceError, short
from weft.functions.creation.fill import full, zeros
from weft.functions.elementwise.ufuncs import expm1
from weft.graph.node import Node, Shape
from weft.optim.atomic_update import Writes, ready, write_together
from weft.optim.clipping import clip_by_norm, clip_by_value
from weft.optim.groups import DELETED, GroupOptions, Groups
from weft.optim.sparse_updates import sparse_names, touched_rows, update_rows, update_where_touched
from weft.optim.update_arguments import check_rate, fitting, named_arrays
from weft.runtime.cell import place_of, seen_from
from weft.runtime.context import LOCAL
from weft.runtime.traced_int import computed
from weft.transforms.tree import structure_changed
from weft.transforms.write_log import landed

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_STATE = ("state", "step_count", "shared", "slots")  # what is no option
_OF_THE_WHOLE = ("groups", "schedule", "clip_norm", "clip_value", *_STATE)


class Optimizer:
    """Base of the optimizers: subclasses give ``slots`` (names of the state) and ``rule``.

    ``update(model, gradients)`` writes the parameters; the first call, or ``init(model)``, makes the state. Options may be
    set between steps (``optimizer.weight_decay = 0``, ``optimizer.groups["*.bias"]["lr"] = 0.1``), inside ``wf.jit`` too. A
    jitted step reads ``lr``, that of a group, ``update``'s ``lr`` and a schedule when it runs; another option is a constant until
    it changes for the first time, and then read, too.

    Parameters
    ----------
    lr : float, the learning rate
    weight_decay : float, added to the gradient as ``weight_decay * p``; AdamW, Lion and LAMB keep it out of their means
    schedule : function of the number of steps made, giving a factor of the learning rate: see ``wf.optim.schedules``
    clip_value : float, gradients are first limited to [-clip_value, clip_value]
    clip_norm : float, all gradients together are then scaled down to this norm
    groups : dict from a pattern to options of the parameters it matches. A pattern is a layer ("0", "encoder.1") or a
        name with wildcards ("0.*", "*.bias"); options are any of this class but schedule and clipping. Where several
        patterns match, later ones win. ``{"lr": 0}`` leaves parameters and their state as they are, ``{"sparse": True}``
        updates them as those of ``wf.nn.Embedding(..., sparse=True)``. (Where the optimizer's own ``lr`` is 0, parameters stay,
        and the state moves on.)

    Raises
    ------
    ValueError
        An option out of range, or a group with an option that the class does not have.
    DTypeError
        A learning rate, weight decay or limit that is no number.

    Notes
    -----
    Of a sparse parameter only the rows that the gradient touches are read and written, with their state: means, momentum
    and weight decay of the other rows stay as they are (PyTorch's SparseAdam, for every optimizer but LAMB, which needs
    the norm of the whole). Gradients of one row are summed first, in the order of the indices. Touched are the rows that
    were looked up, as long as the gradient is what ``wf.grad`` gave, or sums and multiples of it; of any other array, the
    rows that are not zero throughout.

    Examples
    --------
    >>> import weft as wf
    >>> net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.Tanh(), wf.nn.Linear(4, 2))
    >>> optimizer = wf.optim.Adam(
    ...     lr=1e-2, weight_decay=1e-4, clip_norm=1.0, schedule=wf.optim.schedules.cosine(1000),
    ...     groups={"0": {"lr": 1e-3}, "*.bias": {"weight_decay": 0}},
    ... )
    >>> x = wf.ones((5, 3))
    >>> optimizer.update(net, wf.grad(lambda net: (net(x) ** 2).mean())(net))
    """

    slots: tuple[str, ...] = ()
    shared_start: dict[str, float] = {}  # numbers kept once for all parameters of a group: name and first value
    decoupled = False  # whether weight decay shrinks the parameter itself
    needs_loss = False
    needs_rate = False  # whether the first learning rate must not be 0
    __run_time__ = ("lr",)  # numbers that a jitted step reads when it runs, from the first one on
    by_element = True  # whether ``rule`` treats each element by itself, so that rows can be updated alone

    def __init__(
        self, lr: float, *, weight_decay: float = 0.0, schedule: Callable[[Array], Any] | None = None,
        clip_value: float | None = None, clip_norm: float | None = None, groups: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._need_numbers(lr=lr, weight_decay=weight_decay)
        self._need_numbers(**{n: v for n, v in (("clip_value", clip_value), ("clip_norm", clip_norm)) if v is not None})
        self.lr, self.weight_decay, self.schedule = lr, weight_decay, schedule
        self.clip_value, self.clip_norm = clip_value, clip_norm
        self.sparse = False
        self.groups = Groups({})
        self.state: dict[str, dict[str, Array]] = {}
        self.shared: dict[str, Array] = {}
        self.step_count: Array | None = None
        self._home = zeros(())  # belongs where the optimizer was made, and so does its state
        self._kinds: dict[str, tuple[Shape, np.dtype]] = {}  # of the parameters that there is state for
        self._renewed = object()  # another one for other state in the place of state that was there
        self._first_lr = lr
        self._keys: dict[str, tuple[str, ...]] = {}
        self._members: dict[tuple[str, ...], Optimizer] = {}
        self._need(lr > 0 or not self.needs_rate, "lr must be positive, not {}: other numbers are set in proportion to it", lr)
        for name, limit in (("clip_value", clip_value), ("clip_norm", clip_norm)):
            self._need(limit is None or limit > 0, "{} must be positive, not {}", name, limit)
        self._checked()
        for pattern, options in (groups or {}).items():
            for option in options:
                self._need_option(pattern, option)
            member = self._members[pattern,] = self._varied(options)
            self.groups.options[pattern] = GroupOptions(member, tuple(options), self._change_group)

    def __setattr__(self, name: str, value: Any) -> None:
        """An option that is set later counts for groups without one of their own, and jitted functions look again."""
        made = "_members" in vars(self)
        if made and name == "groups":
            raise ValueError(f"{type(self).__name__}: groups are fixed when the optimizer is made; make another one")
        if name == "lr":
            value = _as_rate(value)
        before = vars(self).get(name)
        object.__setattr__(self, name, value)
        if name[0] == "_" or name in _STATE:
            return
        if made:
            try:
                self._checked()
            except (ValueError, DTypeError):
                object.__setattr__(self, name, before)
                raise
            for key, member in self._members.items():
                if not any(name in self.groups[pattern] for pattern in key):
                    setattr(member, name, value)
        structure_changed()

    def __structure__(self) -> tuple[str, ...]:
        """Name the attributes that a jitted step depends on: options, and which state it is. Groups are parts of their own."""
        return tuple([n for n in vars(self) if n == "_renewed" or (n[0] != "_" and n not in (*_STATE, "groups"))])

    def __parts__(self) -> tuple[Optimizer, ...]:
        """The optimizers of the groups, which have a structure of their own."""
        return tuple(vars(self).get("_members", {}).values())

    def init(self, model: Any) -> Optimizer:
        """Make the state for ``model`` (a Module, or a dict of Arrays); returns itself.

        Raises
        ------
        ValueError
            when a pattern of ``groups`` matches no parameter.
        """
        parameters = named_arrays(model)
        home = place_of(self._home._trace)
        again = self._fits(parameters)
        if not again:
            with seen_from(home):
                self._begin(parameters)
            self._start_here(parameters)
        if again or LOCAL.trace is not home:  # written, so a trace sees it, and a failure takes it back
            write_together(self._beginnings(parameters))
        return self

    def update(
        self, model: Any, gradients: Any, lr: float | Array | None = None, *,
        loss: Array | None = None, gradient_at: Callable[[], Any] | None = None,
    ) -> None:
        """Write every parameter of ``model`` by this optimizer's rule.

        Parameters
        ----------
        model : Module or dict of Arrays
        gradients : what ``wf.grad`` of a function of ``model`` gave: same names, same shapes
        lr : in place of the learning rate for this step (groups with a rate of their own keep it; the schedule still
            applies); a Python float compiles nothing new
        loss : the value of the loss; Eve needs it
        gradient_at : function without arguments that gives the gradients at the present parameters; SAM needs it

        Raises
        ------
        ShapeError, TypeError, DTypeError
            when a gradient is missing or has another shape than its parameter; when a parameter is a Scalar, or one of them no
            Array; when a gradient is not float.
        """
        parameters, slopes = fitting(model, gradients)
        check_rate(lr)
        self._need(loss is not None or not self.needs_loss, "update needs loss=, the value of the loss at this step")
        if self.step_count is None or any(name not in self._keys or self._lacks(name) for name in parameters):
            with seen_from(place_of(self._home._trace)):
                self._begin(parameters) if self.step_count is None else self._grow(parameters)
            self._start_here(parameters)
        for target, node in landed(self._stepped, (model, parameters, slopes, lr, loss), {}):
            target._set(node)

    def _stepped(
        self, model: Any, parameters: dict[str, Array], slopes: dict[str, Array], lr: float | Array | None, loss: Array | None,
    ) -> list[tuple[Array, Node]]:
        """What a step writes when it is over. What it does on its way (numbers are drawn, a schedule may keep something) is taken
        back where it fails."""
        assert self.step_count is not None
        moving = {name: p for name, p in parameters.items() if not self._frozen(self._keys[name])}
        rows: dict[str, Node | None] = {}  # of sparse parameters: the numbers of the rows that their slopes are, if known
        for name in self._sparse(model, moving):
            touched = touched_rows(slopes[name], state_dtype(moving[name].dtype))
            rows[name], slopes[name] = touched or (None, slopes[name])
        slopes = self._clipped({name: slopes[name] for name in moving})
        count = self.step_count + 1
        factor = 1.0 if self.schedule is None else self._scheduled((count - 1).astype(FLOAT32))
        steps: dict[tuple[str, ...], _Step] = {}
        writes: Writes = [(self.step_count, count)]
        cells: set[int] = set()
        for name, p in moving.items():
            key = self._keys[name]
            if id(p.cell) in cells:  # a parameter under two names moves twice
                write_together(writes, slopes.values())
                writes = []
            cells.add(id(p.cell))
            member = self._member(key)
            if key not in steps:
                wide = any(q.dtype == FLOAT64 for other, q in moving.items() if self._keys[other] == key)
                t = count.astype(FLOAT64 if wide else FLOAT32)
                rate = member.lr if lr is None or self._own_rate(key) else lr
                numbers = member.numbers(member.shared, t, loss)
                writes += [(kept, numbers[number]) for number, kept in member.shared.items()]
                steps[key] = _Step(rate if self.schedule is None else rate * factor, t, numbers)
            writes += member._moved(p, slopes[name], self.state[name], steps[key], rows.get(name), name in rows)
        return ready(writes)

    def rule(
        self, p: Array, g: Array, state: dict[str, Array], lr: float | Array, t: Array,
    ) -> tuple[Array, dict[str, Array]]:
        """New parameter and new state; ``t`` counts from 1. ``state`` holds the step's ``numbers`` too."""
        raise TypeError(f"{type(self).__name__} has no rule method")

    def numbers(self, shared: dict[str, Array], t: Array, loss: Array | None) -> dict[str, Array]:
        """Numbers of a step, the same for all parameters of a group; those named in ``shared_start`` are kept."""
        return {}

    def start(self, slot: str, p: Array) -> Array:
        """First content of a slot of the state."""
        return zeros(p.shape, dtype=state_dtype(p.dtype))

    def check(self) -> None:
        """Raise ValueError where options make no sense."""

    def arrays(self) -> dict[str, Array]:
        """The state by name, for saving."""
        flat = {f"{name}/{slot}": value for name, slots in self.state.items() for slot, value in slots.items()}
        for key, member in (((), self), *self._members.items()):
            flat.update({f"{','.join(key)}//{name}": value for name, value in member.shared.items()})
        return flat if self.step_count is None else {"step_count": self.step_count, **flat}

    def __repr__(self) -> str:
        hidden = {"state", "shared", "step_count", "slots", "sparse"}
        shown = {k: v for k, v in vars(self).items() if k not in hidden and k[0] != "_" and v is not None and v != {}}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"

    def _need(self, fine: bool, message: str, *values: Any) -> None:
        if not fine:
            raise ValueError(f"{type(self).__name__}: {message.format(*values)}")

    def _need_numbers(self, **named: Any) -> None:
        for name, value in named.items():
            if not isinstance(value, Real | Array | np.ndarray):
                raise DTypeError(f"{type(self).__name__}: {name} must be a number, not {short(value)}")

    def _need_fractions(self, **named: float) -> None:
        self._need_numbers(**named)
        for name, value in named.items():
            self._need(0.0 <= value < 1.0, "{} must lie in [0, 1), not {}", name, value)

    def _checked(self) -> None:
        self._need_numbers(lr=self.lr, weight_decay=self.weight_decay)
        self._need(self.lr >= 0, "lr must not be negative, not {}", self.lr)
        self._need(self.weight_decay >= 0, "weight_decay must not be negative, not {}", self.weight_decay)
        self.check()

    def _member(self, key: tuple[str, ...]) -> Optimizer:
        """This optimizer with the options of the groups in ``key``."""
        if not key:
            return self
        if key not in self._members:
            self._members[key] = self._varied({k: v for pattern in key for k, v in self.groups[pattern].items()})
        return self._members[key]

    def _varied(self, options: Mapping[str, Any]) -> Optimizer:
        """Return this optimizer with other options and without groups."""
        member = copy.copy(self)
        own = {"groups": {}, "_members": {}, "_keys": {}, "state": {}, "shared": {}, "step_count": None, **options}
        own["lr"] = _as_rate(own.get("lr", self.lr))
        own["_first_lr"] = (own["lr"] if "lr" in options else 0) or self._first_lr
        vars(member).update(own)
        member._checked()
        structure_changed()
        return member

    def _need_option(self, pattern: str, option: str) -> None:
        allowed = [n for n in vars(self) if n[0] != "_" and n not in _OF_THE_WHOLE]
        self._need(option in allowed, "group {!r}: no option {!r}; there are {}", pattern, option, ", ".join(allowed))

    def _change_group(self, options: GroupOptions, name: str, value: Any) -> None:
        """Set an option of a group, or delete it, and with it that of all optimizers that the group belongs to."""
        pattern, names = next(p for p, o in self.groups.items() if o is options), options.names
        self._need_option(pattern, name)
        if value is not DELETED:
            setattr(options.holder, name, value)  # which raises if the value does not fit
        if (name in names) != (value is not DELETED):  # a traced step has read which rates are a group's own
            options.names = tuple(n for n in names if n != name) + (() if value is DELETED else (name,))
            self._renewed = object()
        for key, member in self._members.items():
            if pattern in key:
                own = [self.groups[p][name] for p in key if name in self.groups[p]]
                setattr(member, name, own[-1] if own else getattr(self, name))

    def _own_rate(self, key: tuple[str, ...]) -> bool:
        """Whether a group has a learning rate of its own."""
        return any("lr" in self.groups[pattern] for pattern in key)

    def _frozen(self, key: tuple[str, ...]) -> bool:
        """Whether a group stays as it is."""
        return self._own_rate(key) and not self._member(key).lr

    def _lacks(self, name: str) -> bool:
        """Whether a parameter needs state that it has not."""
        key = self._keys[name]
        return not self._frozen(key) and not set(self._member(key).slots) <= self.state[name].keys()

    def _fits(self, parameters: dict[str, Array]) -> bool:
        """Whether there is state for just these parameters, which outlives the traces that this thread is in."""
        same = self.step_count is not None and {n: (p.shape, p.dtype) for n, p in parameters.items()} == self._kinds
        return same and all(place_of(x._trace) is x._trace for x in self.arrays().values())

    def _begin(self, parameters: dict[str, Array]) -> None:
        """Make all state anew."""
        self._need_matches(parameters)
        if self.step_count is not None:
            self._renewed = object()
            structure_changed()
        self.step_count = zeros((), dtype="int32")
        self.state, self._keys, self._kinds = {}, {}, {}
        for member in (self, *self._members.values()):
            member.shared = {}
        self._grow(parameters)

    def _beginnings(self, parameters: dict[str, Array]) -> Writes:
        """What is in the state before the first step."""
        assert self.step_count is not None
        writes: Writes = [(self.step_count, 0)]
        for name, kept in self.state.items():
            writes += [(x, self._member(self._keys[name]).start(slot, parameters[name])) for slot, x in kept.items()]
        for member in (self, *self._members.values()):
            writes += [(x, member.shared_start[number]) for number, x in member.shared.items()]
        return writes

    def _need_matches(self, parameters: dict[str, Array]) -> None:
        for pattern in self.groups:
            names = ", ".join(parameters)
            known_one = any(matches(name, pattern) for name in parameters)
            self._need(known_one, "group {!r} matches no parameter; there are {}", pattern, names)

    def _grow(self, parameters: dict[str, Array]) -> None:
        """State that parameters need and have not."""
        self._need_matches(parameters)
        for name, p in parameters.items():
            key = self._keys[name] = tuple(pattern for pattern in self.groups if matches(name, pattern))
            self._kinds[name] = p.shape, p.dtype
            member, kept = self._member(key), self.state.setdefault(name, {})
            if self._frozen(key):
                continue
            for slot in member.slots:
                if slot not in kept:
                    kept[slot] = member.start(slot, p)
            for number, first in member.shared_start.items():
                if number not in member.shared:
                    member.shared[number] = full((), first, dtype=FLOAT64 if p.dtype == FLOAT64 else FLOAT32)

    def _start_here(self, parameters: dict[str, Array]) -> None:
        """State that begins with what only the trace knows that this thread is in is made in it."""
        if LOCAL.trace is not place_of(self._home._trace):
            for name, p in parameters.items():
                for slot, content in self.state[name].items():
                    if not known(content._node):
                        self.state[name][slot] = self._member(self._keys[name]).start(slot, p)

    def _scheduled(self, count: Array) -> Any:
        """The schedule's factor for a step."""
        assert self.schedule is not None
        try:
            return self.schedule(count)
        except TraceError as error:
            raise TraceError(
                f"{error}. The optimizer's schedule was called with the count of steps, whose value is not known inside a traced "
                "step: in a schedule use wf.minimum(1.0, count / 10) for min(1.0, count / 10), wf.cos for math.cos, wf.where for "
                "if, or take one of wf.optim.schedules"
            ) from None

    def _clipped(self, slopes: dict[str, Array]) -> dict[str, Array]:
        if self.clip_value is not None:
            slopes = clip_by_value(slopes, self.clip_value)
        return slopes if self.clip_norm is None else clip_by_norm(slopes, self.clip_norm)

    def _sparse(self, model: Any, parameters: dict[str, Array]) -> list[str]:
        """Those of the parameters of which only touched rows are updated."""
        layers = sparse_names(model)
        members = {name: self._member(self._keys[name]) for name in parameters}
        return [n for n, m in members.items() if m.by_element and parameters[n].ndim and (n in layers or m.sparse)]

    def _moved(self, p: Array, g: Array, state: dict[str, Array], step: _Step, rows: Node | None, sparse: bool) -> Writes:
        """What a step writes: a parameter's state, and the parameter."""
        dtype = state_dtype(p.dtype)
        g = g if g.dtype == dtype else g.astype(dtype)

        def rule(value: Array, g: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
            if self.weight_decay:
                value, g = self._decayed(value, g, step.rate)
            return self.rule(value, g, {**state, **step.numbers}, step.rate, step.t)

        if rows is not None:
            return update_rows(p, g, rows, state, dtype, rule)
        if sparse:
            return update_where_touched(p, g, state, dtype, rule)
        fresh, changed = rule(p if p.dtype == dtype else p.astype(dtype), g, state)  # float16 is only how it is kept
        return [*[(state[slot], content) for slot, content in changed.items()], (p, fresh)]

    def _decayed(self, p: Array, g: Array, lr: Any) -> tuple[Array, Array]:
        """Parameter and gradient after weight decay."""
        if self.decoupled:
            return p - (lr * self.weight_decay) * p, g  # 1 - lr * weight_decay would round the decay away
        return p, g + self.weight_decay * p


class _Step:
    """What a step is for all parameters of a group."""

    def __init__(self, rate: Any, t: Array, numbers: dict[str, Array]) -> None:
        self.rate, self.t, self.numbers = rate, t, numbers


def _as_rate(value: Any) -> Any:
    """Return a number as a float: numbers of one kind need no second trace."""
    return float(value) if type(value) is int or isinstance(value, np.integer | np.floating) else value


def matches(name: str, pattern: str) -> bool:
    """Whether a parameter's name matches a pattern, or lies in the layer that the pattern names."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, pattern + ".*") or fnmatchcase("." + name, pattern)


def state_dtype(dtype: np.dtype) -> np.dtype:
    """State of float16 and bfloat16 parameters is float32."""
    return spelled(dtype).computed.numpy


def debias(beta: float, t: Array) -> Array | float:
    """``1 - beta**t``, exact to the last bits where the power is near 1; a number of the step, computed once."""
    return -expm1(computed(math.log, beta) * t) if beta else 1.0
