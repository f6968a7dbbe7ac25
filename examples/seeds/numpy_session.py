"""The textbook's session on CuPy and precision, with weft in CuPy's place and what it prints.

    python examples/seeds/numpy_session.py

Single precision is asked for by ``astype``; weft's own random numbers have it already:

>>> import numpy as np
>>> import weft as wf
>>> a = np.random.randn(3)
>>> a.dtype
dtype('float64')
>>> b = np.random.randn(3).astype(np.float32)
>>> b.dtype
dtype('float32')
>>> c = np.random.randn(3).astype('f')
>>> c.dtype
dtype('float32')
>>> wf.random.randn(3).dtype
dtype('float32')

Arrays are made, converted and reduced as NumPy's are; nothing is computed until it is looked at:

>>> x = wf.arange(6).reshape(2, 3).astype('f')
>>> x
array([[0., 1., 2.],
       [3., 4., 5.]], dtype=float32)
>>> x.sum(axis=1)
array([ 3., 12.], dtype=float32)

To NumPy and back, as ``cp.asnumpy`` and ``cp.asarray``:

>>> y = x.numpy()
>>> type(y)
<class 'numpy.ndarray'>
>>> wf.asarray(y) + 1
array([[1., 2., 3.],
       [4., 5., 6.]], dtype=float32)

The switch from NumPy to the other library is one line, here too:

>>> def softmax(np, x):
...     e = np.exp(x - x.max(axis=1, keepdims=True))
...     return e / e.sum(axis=1, keepdims=True)
>>> softmax(np, y).round(3)
array([[0.09 , 0.245, 0.665],
       [0.09 , 0.245, 0.665]], dtype=float32)
>>> softmax(wf, x).round(3)
array([[0.09 , 0.245, 0.665],
       [0.09 , 0.245, 0.665]], dtype=float32)
"""

from __future__ import annotations

import doctest


def main() -> None:
    """Type the session in, and print what it really prints."""
    names: dict = {}
    for example in doctest.DocTestParser().get_examples(__doc__):
        first, *more = example.source.rstrip().split("\n")
        print("\n".join([f">>> {first}", *(f"... {line}" for line in more)]))
        exec(compile(example.source, "session", "single"), names)


if __name__ == "__main__":
    main()
