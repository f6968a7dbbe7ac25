"""Signals wait while a module loads or LLVM compiles, and are never lost."""

from __future__ import annotations

import asyncio
import importlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.soak import interrupts
from weft.process.signals import defer_signals

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


def press() -> None:
    signal.raise_signal(signal.SIGINT)
    for _ in range(3):
        time.sleep(0)


def test_it_is_raised_at_the_end_of_the_outermost() -> None:
    steps: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        with defer_signals():
            press()
            steps.append(1)
            with defer_signals():
                press()
                steps.append(2)
            steps.append(3)
        steps.append(4)
    assert steps == [1, 2, 3]
    with defer_signals():
        steps.append(5)
    assert steps[-1] == 5


def test_an_error_inside_is_not_forgotten() -> None:
    with pytest.raises(ZeroDivisionError):
        with defer_signals():
            1 / 0  # noqa: B018
    with pytest.raises(KeyboardInterrupt) as caught:
        with defer_signals():
            press()
            1 / 0  # noqa: B018
    assert isinstance(caught.value.__context__, ZeroDivisionError)


def test_handlers_of_the_users_are_called_later_and_others_are_left_alone() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with defer_signals():
            press()
            assert not seen
        assert seen == [signal.SIGINT]
        for other in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(signal.SIGINT, other)
            with defer_signals():
                assert signal.getsignal(signal.SIGINT) == other
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGALRM", "SIGUSR1", "SIGCHLD", "SIGPROF"])
def test_what_handlers_of_other_signals_raise_waits_too(name: str) -> None:
    number = getattr(signal, name)

    def ring(number: int, frame: Any) -> None:
        assert frame is not None
        raise TimeoutError(number)

    steps = []
    before = signal.signal(number, ring)
    try:
        with pytest.raises(TimeoutError) as caught:
            with defer_signals():
                for _ in range(2):  # twice is once, as with signals that wait in the kernel
                    signal.raise_signal(number)
                    steps.append(time.sleep(0))
        assert caught.value.args == (number,) and len(steps) == 2 and caught.value.__context__ is None
        assert signal.getsignal(number) is ring
    finally:
        signal.signal(number, before)


def test_all_that_came_are_handled_whatever_the_first_raises() -> None:
    seen: list[int] = []

    def ring(number: int, frame: Any) -> None:
        seen.append(number)
        raise TimeoutError

    numbers = signal.SIGALRM, signal.SIGUSR1
    before = [signal.signal(number, ring) for number in numbers]
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            with defer_signals():
                for number in (*numbers, signal.SIGINT):
                    signal.raise_signal(number)
                    time.sleep(0)
        assert seen == [*numbers] and isinstance(caught.value.__context__, TimeoutError)
        assert [signal.getsignal(number) for number in numbers] == [ring, ring]
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def test_an_event_loop_hears_a_signal_once() -> None:
    heard: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, heard.append, 1)
        with defer_signals():
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(0)
        deadline = time.monotonic() + 10
        while not heard and time.monotonic() < deadline:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.01)  # a second call would come now
        loop.remove_signal_handler(signal.SIGUSR1)

    asyncio.run(main())
    assert heard == [1]


def test_other_threads_hold_nothing() -> None:
    found: list[Any] = []

    def look() -> None:
        with defer_signals():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]


def test_modules_of_weft_load_whole(tmp_path: Path) -> None:
    """An interrupted import runs to its end; what it imported stays, and it can be imported again."""
    (tmp_path / "weft_inner.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\nprint('inner')\n")
    (tmp_path / "weft_outer.py").write_text("import weft.weft_inner\nprint('outer')\n")
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"import sys, weft; weft.__path__.append({str(tmp_path)!r})\n"
        "try:\n    import weft.weft_outer\n    print('not raised')\nexcept KeyboardInterrupt:\n"
        "    print('raised', 'weft.weft_inner' in sys.modules)\n"
        "import weft.weft_outer, inspect, importlib.resources\n"
        "print('outer' in inspect.getsource(weft.weft_outer), (importlib.resources.files('weft') / 'py.typed').is_file())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.split() == ["inner", "outer", "raised", "True", "outer", "True", "True"], done.stderr


@pytest.mark.parametrize("name", ["weft.array", "weft.graph.primitives", "weft.transforms.tree", "weft.nn"])
def test_a_module_whose_import_was_interrupted_can_be_imported_again(name: str) -> None:
    code = (
        "import importlib, signal, sys, weft.process.import_hook\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "load = weft.process.import_hook._UninterruptedLoader.exec_module\n"
        "def press(self, module):\n"
        f"    if module.__name__ != {name!r} or 'pressed' in globals():\n        return load(self, module)\n"
        "    globals()['pressed'] = True\n"
        "    with weft.process.import_hook.defer_signals():\n"
        "        signal.raise_signal(signal.SIGINT)\n        load(self, module)\n"
        "weft.process.import_hook._UninterruptedLoader.exec_module = press\n"
        f"try:\n    importlib.import_module({name!r})\nexcept KeyboardInterrupt:\n    print('raised')\n"
        f"importlib.import_module({name!r})\n"
        "import weft as wf\n"
        "net, x = wf.nn.Linear(2, 3), wf.ones((4, 2))\n"
        "slopes = wf.grad(lambda net: (net(x) ** 2).sum())(net)\n"
        "print(isinstance(slopes.weight, wf.Array), slopes.weight.shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.splitlines() == ["raised", "True (3, 2)"], done.stderr


def test_modules_can_be_loaded_again() -> None:
    from weft.functions.shape import axes as module

    before = dict(vars(module))
    try:
        assert importlib.reload(module) is module and module.__spec__ is not None
        assert module.__spec__.origin == module.__file__
    finally:
        vars(module).update(before)


def test_interrupted_while_it_begins() -> None:
    assert interrupts.cold(3, longest=0.4) >= 1


def test_every_interruption_of_a_process_that_compiles_is_caught() -> None:
    caught, kernels = interrupts.warm(15)
    assert caught == 15 and kernels > 15


def test_what_comes_while_handlers_are_put_back_is_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    """``signal.signal`` itself handles what is pending first, by the handler that it replaces."""
    setting = signal.signal

    def pressed(number: int, handler: Any) -> Any:
        if handler is signal.default_int_handler:
            signal.raise_signal(number)
        return setting(number, handler)

    before = setting(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            with defer_signals():
                monkeypatch.setattr(signal, "signal", pressed)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        setting(signal.SIGINT, before)


@pytest.mark.parametrize("wrap", ["", "wf.jit"])
def test_a_loop_that_does_not_end_is_interrupted(wrap: str) -> None:
    code = (
        "import signal, weft as wf\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        f"f = {wrap}(lambda n, x: wf.while_loop(lambda n: n != 0, lambda n: n + x, n))\n"
        "zero, one = wf.array(0), wf.array(1)\n"
        "assert int(f(one, -one)) == 0\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.1)\n"
        "try:\n    print('ended', int(f(one, zero)))\nexcept KeyboardInterrupt:\n    print('interrupted', int(f(one, -one)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.split() == ["interrupted", "0"], done.stderr
