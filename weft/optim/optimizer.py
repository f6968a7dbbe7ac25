"""The base class of optimizers: state for each parameter, stored in Cells, so that a jitted step updates it.

jit knows an optimizer by its options (``__structure__``), except ``lr``, which is a Cell: setting it compiles nothing.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.check import check_rounding, parse_number_format
from weft.dtypes.formats import FLOAT32 as FLOAT32_FORMAT
from weft.dtypes.parse import parse_dtype
from weft.eager.materialise import can_compute
from weft.errors import DTypeError, ShapeError, TraceError, short
from weft.functions.creation.fill import full, zeros
from weft.functions.elementwise.ufuncs import expm1
from weft.graph.node import Node, Shape
from weft.optim import array_writes
from weft.optim.array_writes import Writes, write_together
from weft.optim.clipping import clip_by_norm, clip_by_value
from weft.optim.groups import DELETED_MARK, GroupOptions, Groups
from weft.optim.update_arguments import check_learning_rate, match_gradients, name_aliases, named_arrays
from weft.process.foreign_names import OPTIMIZER
from weft.process.keyword_checks import KeywordCheck, keyword_advice
from weft.process.name_errors import add_foreign_names, own_names
from weft.runtime.cell import inside_trace, owning_trace
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import compute_traced
from weft.transforms.tree import matches, structure_changed
from weft.transforms.write_log import call_atomically

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_STATE = ("state", "step_count", "shared", "slots")  # attributes that are not options
_Step = tuple[Any, Array, dict[str, Array]]  # rate, number and shared numbers of a step
_NOT_PER_GROUP = ("groups", "schedule", "clip_norm", "clip_value", *_STATE)


class Optimizer(KeywordCheck):
    """Base of the optimizers: subclasses define ``slots`` (names of the state arrays) and ``rule``.

    ``update(model, gradients)`` writes the parameters; the first call, or ``init(model)``, creates the state. Options may be
    set between steps (``optimizer.weight_decay = 0``, ``optimizer.groups["*.bias"]["lr"] = 0.1``), inside ``wf.jit`` too. A
    jitted step reads ``lr``, the ``lr`` of each group, ``update``'s ``lr`` and the schedule at run time. Other options are
    constants until they change for the first time, and run-time arguments from then on.

    Parameters
    ----------
    lr : float, the learning rate
    weight_decay : float, added to the gradient as ``weight_decay * p``; AdamW, Lion and LAMB keep it out of their means
    schedule : function of the number of completed steps that returns a factor of the learning rate: see ``wf.optim.schedules``
    clip_value : float, gradients are first limited to [-clip_value, clip_value]
    clip_norm : float, all gradients together are then scaled down to this norm
    groups : dict from a pattern to options of the parameters it matches
        A pattern is a layer ("0", "encoder.1") or a name with wildcards ("0.*", "*.bias"); options are any of this class
        but schedule and clipping. If several patterns match, later ones win. ``{"lr": 0}`` freezes parameters and their
        state; ``{"sparse": True}`` updates them as those of ``wf.nn.Embedding(..., sparse=True)``. (If the optimizer's own
        ``lr`` is 0, parameters stay unchanged, but their state is updated.)
    parameter_dtype : float dtype, new parameters are rounded to its numbers. By default their own dtype
    state_dtype : float dtype in which the state is stored. By default float32, or float64 for parameters of float64
    rounding : how both are rounded, a mode of ``astype``. By default "nearest"
        "stochastic" keeps updates that are small beside their parameters, right on average. Steps are computed in float32.

    Raises
    ------
    ValueError
        An option is out of range, or a group has an option that the class does not have.
    TypeError, DTypeError
        ``groups`` is no dict; a learning rate, weight decay or limit is not a number; a dtype is not that of floats, or one of
        scales.

    Notes
    -----
    Of a sparse parameter only the rows that the gradient touches are read and written, with their state: means, momentum
    and weight decay of the other rows are not applied (PyTorch's SparseAdam, for every optimizer but LAMB, which needs
    the norm of the whole). Gradients of one row are summed first, in the order of the indices. The touched rows are those
    that were looked up if the gradient comes from ``wf.grad``, or is a sum or multiple of such gradients; for any other
    array they are the rows with a nonzero element.

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
    shared_start: dict[str, float] = {}  # numbers stored once per group: name and initial value
    decoupled = False  # whether weight decay shrinks the parameter instead of changing the gradient
    needs_loss = False
    needs_rate = False  # whether the first learning rate must not be 0
    __run_time__ = ("lr",)  # run-time arguments of a jitted step from its first trace on
    _argument_hint = "Adam(lr=1e-3) without parameters; optimizer.update(model, gradients) takes the model"
    by_element = True  # whether ``rule`` is elementwise, so that single rows can be updated

    def __init__(
        self, lr: float, *, weight_decay: float = 0.0, schedule: Callable[[Array], Any] | None = None,
        clip_value: float | None = None, clip_norm: float | None = None, groups: Mapping[str, Mapping[str, Any]] | None = None,
        parameter_dtype: Any = None, state_dtype: Any = None, rounding: str | None = None,
    ) -> None:
        if hasattr(lr, "parameters") or isinstance(lr, Mapping | Iterator | list | tuple):
            given = f"not a {type(lr).__name__}; in weft: {self._argument_hint}"
            raise DTypeError(f"{type(self).__name__}: lr must be a number, {given}")
        if callable(lr):
            raise DTypeError(f"{type(self).__name__}: lr must be a number, not {short(lr)}; schedule= takes a schedule")
        self._need_numbers(lr=lr, **{n: v for n, v in (("clip_value", clip_value), ("clip_norm", clip_norm)) if v is not None})
        self.lr, self.weight_decay, self.schedule = lr, weight_decay, schedule
        self.clip_value, self.clip_norm = clip_value, clip_norm
        self.parameter_dtype, self.state_dtype, self.rounding = parameter_dtype, state_dtype, rounding
        self.sparse = False
        self.groups = Groups()
        self.state: dict[str, dict[str, Array]] = {}
        self.shared: dict[str, Array] = {}
        self.step_count: Array | None = None
        self._home = zeros(())  # belongs to the trace in which the optimizer was created, and so does the state
        self._kinds: dict[str, tuple[Shape, np.dtype]] = {}  # of the parameters that have state
        self._place: tuple[int, int] | None = None
        self._state_version = object()  # replaced for new state and changed group options, which need a new trace
        self._first_lr = lr
        self._keys: dict[str, tuple[str, ...]] = {}
        self._members: dict[tuple[str, ...], Optimizer] = {}
        self._need(lr > 0 or not self.needs_rate, "lr must be positive, not {}: other numbers are set in proportion to it", lr)
        for name, limit in (("clip_value", clip_value), ("clip_norm", clip_norm)):
            self._need(limit is None or limit > 0, "{} must be positive, not {}", name, limit)
        self._validate()
        if not isinstance(groups, Mapping | None):
            raise TypeError(
                f"{type(self).__name__}: groups must be a dict from patterns of names to options, such as "
                f"{{'*.bias': {{'weight_decay': 0}}}}, not {short(groups)}"
            )
        for pattern, options in (groups or {}).items():
            for option in options:
                self._need_option(pattern, option)
            member = self._members[pattern,] = self._copy_with(options)
            self.groups.data[pattern] = GroupOptions(member, tuple(options), self._change_group)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; an option also applies to groups without a value of their own, and jitted functions recheck it."""
        is_initialised = "_members" in vars(self)
        if is_initialised and name == "groups":
            raise ValueError(f"{type(self).__name__}: groups are fixed when the optimizer is made; make another one")
        if name == "lr":
            value = _as_rate(value)
        before = vars(self).get(name)
        object.__setattr__(self, name, value)
        if name[0] == "_" or name in _STATE:
            return
        if is_initialised:
            try:
                self._validate()
            except (ValueError, TypeError):
                object.__setattr__(self, name, before)
                raise
            for key, member in self._members.items():
                if not any(name in self.groups[pattern] for pattern in key):
                    setattr(member, name, value)
        structure_changed()

    def __structure__(self) -> tuple[str, ...]:
        """Return the attributes that a jitted step depends on: options, and ``_state_version``; not the groups."""
        return tuple([n for n in vars(self) if n == "_state_version" or (n[0] != "_" and n not in (*_STATE, "groups"))])

    def __parts__(self) -> tuple[Optimizer, ...]:
        """Return the optimizers of the groups, which have a structure of their own."""
        return tuple(vars(self).get("_members", {}).values())

    def init(self, model: Any) -> Optimizer:
        """Create the state for ``model`` (a Module, or a dict of Arrays), or reset it; return the optimizer.

        Raises
        ------
        ValueError
            A pattern of ``groups`` matches no parameter.
        """
        parameters = named_arrays(model)
        home = owning_trace(self._home._trace)
        has_state = self._has_state_for(parameters)
        if not has_state:
            with inside_trace(home):
                self._create_state(model, parameters)
            self._start_in_trace(parameters)
        if has_state or CONTEXT.trace is not home:  # writes are recorded by a trace and undone after a failure
            write_together(self._initial_writes(parameters))
        return self

    def update(
        self, model: Any, gradients: Any, lr: float | Array | None = None, *,
        loss: Array | None = None, gradient_at: Callable[[], Any] | None = None,
    ) -> None:
        """Update every parameter of ``model`` by this optimizer's rule.

        Parameters
        ----------
        model : Module or dict of Arrays
        gradients : the result of ``wf.grad`` of a function of ``model``: same names, same shapes
        lr : learning rate of this step, instead of the optimizer's
            Groups with a rate of their own keep it; the schedule still applies. A new number does not compile anything.
        loss : the value of the loss, required by Eve
        gradient_at : function without arguments that returns the gradients at the current parameters, required by SAM

        Raises
        ------
        ShapeError, TypeError, DTypeError
            A gradient is missing, has another shape than its parameter, or is not float; a parameter has another shape than its
            state, or is a Scalar; a parameter or gradient is not an Array.
        """
        parameters, slopes = match_gradients(model, gradients)
        check_learning_rate(lr)
        for name, p in parameters.items():
            if self.state.get(name) and self._kinds[name][0] != p.shape:
                raise ShapeError(
                    f"update: parameter {name!r} has shape {p.shape}, but the state of this {type(self).__name__} is for shape "
                    f"{self._kinds[name][0]}: make an optimizer for each model, or call init(model), which resets the state"
                )
        self._update_arrays(model, parameters, slopes, lr, loss)

    def _update_arrays(
        self, model: Any, parameters: dict[str, Array], slopes: dict[str, Array], lr: float | Array | None, loss: Array | None,
        factor: Any = None,
    ) -> None:
        """Update parameters of ``model``, or parts of them, by name.

        factor : by which gradients are multiplied in place of clipping by ``clip_norm``
        """
        self._need(loss is not None or not self.needs_loss, "update needs loss=, the value of the loss at this step")
        if self.step_count is None or any(name not in self._keys or self._needs_state(name) for name in parameters):
            with inside_trace(owning_trace(self._home._trace)):
                self._create_state(model, parameters) if self.step_count is None else self._add_state(model, parameters)
            self._start_in_trace(parameters)
        for target, node in call_atomically(self._compute_step, (model, parameters, slopes, lr, loss, factor), {}):
            target._set(node)

    def _init_parts(self, model: Any, parts: dict[str, Array], place: tuple[int, int]) -> None:
        """Create the state for parts of the parameters of ``model``, by name. place : number of the part, and of how many"""
        self._create_state(model, parts)
        self._place = place

    def _compute_step(
        self, model: Any, parameters: dict[str, Array], slopes: dict[str, Array], lr: float | Array | None, loss: Array | None,
        factor: Any = None,
    ) -> list[tuple[Array, Node]]:
        """Return what a step writes: each array and its new content.

        Side effects on the way (random draws, state kept by a schedule) are undone if the step fails.
        """
        assert self.step_count is not None
        trained = {name: p for name, p in parameters.items() if not self._is_frozen(self._keys[name])}
        rows: dict[str, Node | None] = {}  # of sparse parameters: row numbers of their gradients, if known
        for name in self._sparse_names(model, trained):
            sparse_slope = array_writes.touched_rows(slopes[name], state_dtype(trained[name].dtype))
            rows[name], slopes[name] = sparse_slope or (None, slopes[name])
        slopes = {name: slopes[name] for name in trained}
        if self.clip_value is not None:
            slopes = clip_by_value(slopes, self.clip_value)
        if factor is not None:
            slopes = {name: (g * factor).astype(g.dtype) for name, g in slopes.items()}
        elif self.clip_norm is not None:
            slopes = clip_by_norm(slopes, self.clip_norm)
        count = self.step_count + 1
        factor = 1.0 if self.schedule is None else self._schedule_factor((count - 1).astype(FLOAT32))
        steps: dict[tuple[str, ...], _Step] = {}  # of each group
        writes: Writes = [(self.step_count, count)]
        cells: set[int] = set()
        for name, p in trained.items():
            key = self._keys[name]
            if id(p.cell) in cells:  # a parameter with two names is updated twice
                write_together(writes, slopes.values())
                writes = []
            cells.add(id(p.cell))
            member = self._member(key)
            if key not in steps:
                has_float64 = any(q.dtype == FLOAT64 for other, q in trained.items() if self._keys[other] == key)
                t = count.astype(FLOAT64 if has_float64 else FLOAT32)
                rate = member.lr if lr is None or self._has_own_rate(key) else lr
                numbers = member.numbers(member.shared, t, loss)
                writes += [(stored, numbers[number]) for number, stored in member.shared.items()]
                steps[key] = rate if self.schedule is None else rate * factor, t, numbers
            writes += member._update_writes(p, slopes[name], self.state[name], steps[key], rows.get(name), name in rows)
        return array_writes.prepare_writes(writes)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr: float | Array, t: Array) -> tuple[Array, dict[str, Array]]:
        """Return the new parameter and the new state; ``t`` counts from 1. ``state`` also contains the step's ``numbers``."""
        raise TypeError(f"{type(self).__name__} has no rule method")

    def numbers(self, shared: dict[str, Array], t: Array, loss: Array | None) -> dict[str, Array]:
        """Return the numbers of a step, shared by all parameters of a group; those named in ``shared_start`` are stored."""
        return {}

    def start(self, slot: str, p: Array) -> Array:
        """Return the initial content of a slot."""
        return zeros(p.shape, dtype=state_dtype(p.dtype))

    def check(self) -> None:
        """Raise ValueError if options are invalid."""

    def arrays(self) -> dict[str, Array]:
        """Return the state arrays by name, for saving."""
        flat = {f"{name}/{slot}": value for name, slots in self.state.items() for slot, value in slots.items()}
        for key, member in (((), self), *self._members.items()):
            flat.update({f"{','.join(key)}//{name}": value for name, value in member.shared.items()})
        return flat if self.step_count is None else {"step_count": self.step_count, **flat}

    def save(self, path: str | os.PathLike) -> None:
        """Write the state and the learning rate to a safetensors file, see :func:`weft.io.save`.

        Parameters
        ----------
        path : str or path

        Raises
        ------
        ValueError
            The optimizer has a rank's part of its state only, after ``fit(sharded=...)``.

        Examples
        --------
        >>> import weft as wf, tempfile, os
        >>> path, net = os.path.join(tempfile.mkdtemp(), "adam.safetensors"), wf.nn.Linear(3, 2)
        >>> wf.optim.Adam(lr=0.01).init(net).save(path)
        >>> wf.optim.Adam().init(net).load(path).lr
        0.01
        """
        from weft.nn import weights  # loads all layers

        part = "save: this is part {} of {} of the state, from fit(sharded=...); a checkpoint of fit has all of it"
        self._need(self._place is None, part, *(self._place or ()))
        weights.save(path, self)

    def load(self, path: str | os.PathLike) -> Optimizer:
        """Read a file written by :meth:`save`; return the optimizer. Its state must exist, see :meth:`init`.

        Parameters
        ----------
        path : str or path

        Raises
        ------
        DataError
            The file is damaged or belongs to another model or optimizer, or the optimizer has no state.
        """
        from weft.nn import weights

        return weights.load_into(self, path)

    def __repr__(self) -> str:
        omitted = {"state", "shared", "step_count", "slots", "sparse"}
        options = {k: v for k, v in vars(self).items() if k not in omitted and k[0] != "_" and v is not None and v != {}}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in options.items())})"

    def __dir__(self) -> list[str]:
        return own_names(type(self), object.__dir__(self))

    def _need(self, is_valid: bool, message: str, *values: Any) -> None:
        if not is_valid:
            raise ValueError(f"{type(self).__name__}: {message.format(*values)}")

    def _need_numbers(self, **named: Any) -> None:
        for name, value in named.items():
            if not isinstance(value, Real | Array | np.ndarray):
                raise DTypeError(f"{type(self).__name__}: {name} must be a number, not {short(value)}")

    def _need_fractions(self, **named: float) -> None:
        self._need_numbers(**named)
        for name, value in named.items():
            self._need(0.0 <= value < 1.0, "{} must lie in [0, 1), not {}", name, value)

    def _validate(self) -> None:
        self._need_numbers(lr=self.lr, weight_decay=self.weight_decay)
        if self.schedule is not None and not callable(self.schedule):
            raise TypeError(
                f"{type(self).__name__}: schedule must be a function of the number of steps, such as "
                f"wf.optim.schedules.cosine(1000) or wf.optim.schedules.exponential(0.99), not {short(self.schedule)}"
            )
        self._need(self.lr >= 0, "lr must not be negative, not {}", self.lr)
        self._need(self.weight_decay >= 0, "weight_decay must not be negative, not {}", self.weight_decay)
        for name in ("parameter_dtype", "state_dtype"):
            dtype = getattr(self, name)
            form = FLOAT32_FORMAT if dtype is None else parse_number_format(f"{type(self).__name__}: {name}", dtype)
            check_rounding(type(self).__name__, form, self.rounding, None)
        self.check()

    def _member(self, key: tuple[str, ...]) -> Optimizer:
        """Return this optimizer with the options of the groups in ``key``."""
        if not key:
            return self
        if key not in self._members:
            self._members[key] = self._copy_with({k: v for pattern in key for k, v in self.groups[pattern].items()})
        return self._members[key]

    def _copy_with(self, options: Mapping[str, Any]) -> Optimizer:
        """Return a copy of this optimizer with other options and without groups."""
        member = copy.copy(self)
        attributes = {"groups": {}, "_members": {}, "_keys": {}, "state": {}, "shared": {}, "step_count": None, **options}
        attributes["lr"] = _as_rate(attributes.get("lr", self.lr))
        attributes["_first_lr"] = (attributes["lr"] if "lr" in options else 0) or self._first_lr
        vars(member).update(attributes)
        member._validate()
        structure_changed()
        return member

    def _need_option(self, pattern: str, option: str) -> None:
        allowed = [n for n in vars(self) if n[0] != "_" and n not in _NOT_PER_GROUP]
        self._need(option in allowed, "group {!r}: no option {!r}{}", pattern, option, keyword_advice(option, allowed))

    def _change_group(self, options: GroupOptions, name: str, value: Any) -> None:
        """Set or delete an option of a group, also in all optimizers of parameters that belong to the group."""
        pattern, names = next(p for p, o in self.groups.items() if o is options), options.names
        self._need_option(pattern, name)
        if value is not DELETED_MARK:
            setattr(options.holder, name, value)  # raises if the value is invalid
        if (name in names) != (value is not DELETED_MARK):  # a traced step depends on which groups have an option
            options.names = tuple(n for n in names if n != name) + (() if value is DELETED_MARK else (name,))
            self._state_version = object()
        for key, member in self._members.items():
            if pattern in key:
                values = [self.groups[p][name] for p in key if name in self.groups[p]]
                setattr(member, name, values[-1] if values else getattr(self, name))

    def _has_own_rate(self, key: tuple[str, ...]) -> bool:
        """Return whether a group in ``key`` has a learning rate of its own."""
        return any("lr" in self.groups[pattern] for pattern in key)

    def _is_frozen(self, key: tuple[str, ...]) -> bool:
        """Return whether the group's learning rate is 0, which leaves parameters and state unchanged."""
        return self._has_own_rate(key) and not self._member(key).lr

    def _start(self, slot: str, p: Array) -> Array:
        """Return the initial content of a slot in the dtype in which the state is stored."""
        content = self.start(slot, p)
        return content if self.state_dtype is None else content.astype(self.state_dtype)

    def _needs_state(self, name: str) -> bool:
        """Return whether a parameter needs state that does not exist yet."""
        key = self._keys[name]
        return not self._is_frozen(key) and not set(self._member(key).slots) <= self.state[name].keys()

    def _has_state_for(self, parameters: dict[str, Array]) -> bool:
        """Return whether the state is for exactly these parameters and outlives the current traces."""
        has_same = self.step_count is not None and {n: (p.shape, p.dtype) for n, p in parameters.items()} == self._kinds
        return has_same and all(owning_trace(x._trace) is x._trace for x in self.arrays().values())

    def _create_state(self, model: Any, parameters: dict[str, Array]) -> None:
        """Create all state anew."""
        self._match_groups(model, parameters)
        if self.step_count is not None:
            self._state_version = object()
            structure_changed()
        self.step_count, self._place = zeros((), dtype="int32"), None
        self.state, self._keys, self._kinds = {}, {}, {}
        for member in (self, *self._members.values()):
            member.shared = {}
        self._add_state(model, parameters)

    def _initial_writes(self, parameters: dict[str, Array]) -> Writes:
        """Return the writes that reset the state to that before the first step."""
        assert self.step_count is not None
        writes: Writes = [(self.step_count, 0)]
        for name, slots in self.state.items():
            writes += [(x, self._member(self._keys[name]).start(slot, parameters[name])) for slot, x in slots.items()]
        for member in (self, *self._members.values()):
            writes += [(x, member.shared_start[number]) for number, x in member.shared.items()]
        return writes

    def _match_groups(self, model: Any, parameters: dict[str, Array]) -> dict[str, tuple[str, ...]]:
        """Return the groups of each parameter, by any of its names. Raise if a group has none."""
        if not self.groups:
            return dict.fromkeys(parameters, ())
        aliases = name_aliases(model)
        names = {name: [name, *aliases.get(name, ())] for name in parameters}
        found = {name: tuple(p for p in self.groups if any(matches(n, p) for n in names[name])) for name in parameters}
        for pattern in self.groups:
            has_match = any(pattern in key for key in found.values())
            known = ", ".join(n for shared in names.values() for n in shared)
            self._need(has_match, "group {!r} matches no parameter; there are {}", pattern, known)
        return found

    def _add_state(self, model: Any, parameters: dict[str, Array]) -> None:
        """Create the state that parameters need and do not have."""
        keys = self._match_groups(model, parameters)
        for name, p in parameters.items():
            key = self._keys[name] = keys[name]
            self._kinds[name] = p.shape, p.dtype
            member, slots = self._member(key), self.state.setdefault(name, {})
            if self._is_frozen(key):
                continue
            for slot in member.slots:
                if slot not in slots:
                    slots[slot] = member._start(slot, p)
            for number, first in member.shared_start.items():
                if number not in member.shared:
                    member.shared[number] = full((), first, dtype=FLOAT64 if p.dtype == FLOAT64 else FLOAT32)

    def _start_in_trace(self, parameters: dict[str, Array]) -> None:
        """Create state inside the current trace if its initial value depends on traced arrays."""
        if CONTEXT.trace is not owning_trace(self._home._trace):
            for name, p in parameters.items():
                for slot, content in self.state[name].items():
                    if not can_compute(content._node):
                        self.state[name][slot] = self._member(self._keys[name])._start(slot, p)

    def _schedule_factor(self, count: Array) -> Any:
        """Return the schedule's factor for a step."""
        assert self.schedule is not None
        try:
            return self.schedule(count)
        except TraceError as error:
            raise TraceError(
                f"{error}. The optimizer's schedule was called with the count of steps, whose value is not known inside a traced "
                "step: in a schedule use wf.minimum(1.0, count / 10) for min(1.0, count / 10), wf.cos for math.cos, wf.where for "
                "if, or take one of wf.optim.schedules"
            ) from None

    def _sparse_names(self, model: Any, parameters: dict[str, Array]) -> list[str]:
        """Return the names of the parameters of which only touched rows are updated."""
        layers = array_writes.sparse_parameter_names(model)
        members = {name: self._member(self._keys[name]) for name in parameters}
        return [n for n, m in members.items() if m.by_element and parameters[n].ndim and (n in layers or m.sparse)]

    def _update_writes(self, p: Array, g: Array, state: dict[str, Array], step: _Step, rows: Node | None, sparse: bool) -> Writes:
        """Return what a step writes for one parameter: its state and its new value."""
        rate, t, numbers = step
        dtype = state_dtype(p.dtype)
        g = g if g.dtype == dtype else g.astype(dtype)

        def rule(value: Array, g: Array, state: dict[str, Array]) -> tuple[Array, dict[str, Array]]:
            if self.weight_decay:
                value, g = self._decay(value, g, rate)
            state = {slot: x if x.dtype == dtype else x.astype(dtype) for slot, x in state.items()}
            new_value, new_state = self.rule(value, g, {**state, **numbers}, rate, t)
            new_value = self._round(new_value, self.parameter_dtype or p.dtype)
            return new_value, {slot: self._round(x, self.state_dtype or dtype) for slot, x in new_state.items()}

        if rows is not None:
            return array_writes.update_rows(p, g, rows, state, dtype, rule)
        if sparse:
            return array_writes.update_where_touched(p, g, state, dtype, rule)
        new_value, new_state = rule(p if p.dtype == dtype else p.astype(dtype), g, state)  # float16 is only a storage format
        return [*[(state[slot], content) for slot, content in new_state.items()], (p, new_value)]

    def _round(self, x: Array, dtype: Any) -> Array:
        """Round to the numbers of a dtype. Without options the write does it."""
        if x.dtype == dtype or (self.rounding is None and self.parameter_dtype is None and self.state_dtype is None):
            return x
        return x.astype(dtype, rounding=self.rounding).astype(x.dtype)

    def _decay(self, p: Array, g: Array, lr: Any) -> tuple[Array, Array]:
        """Return parameter and gradient after weight decay."""
        if self.decoupled:
            return p - (lr * self.weight_decay) * p, g  # 1 - lr * weight_decay could round to 1
        return p, g + self.weight_decay * p


add_foreign_names(Optimizer, OPTIMIZER, flags=("learning_rate", "param_groups"))


def _as_rate(value: Any) -> Any:
    """Return a number as a float, so that ints and NumPy numbers need no second trace."""
    return float(value) if type(value) is int or isinstance(value, np.integer | np.floating) else value


def state_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of a parameter's state: float32 for float16 and bfloat16."""
    return parse_dtype(dtype).computed.numpy


def bias_correction(beta: float, t: Array) -> Array | float:
    """Return ``1 - beta**t``, accurate where the power is near 1; computed once per step."""
    return -expm1(compute_traced(math.log, beta) * t) if beta else 1.0
