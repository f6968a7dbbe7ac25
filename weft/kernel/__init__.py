"""What one kernel computes, and all that knows it but no device.

``ir`` is the language: phases of loop nests over axes, with loads, stores, reductions and one contraction. ``values`` makes
expressions of it, ``index`` moves positions through shapes, ``walk`` walks expressions, ``printer`` prints a kernel (the printed
form is what compiled code is cached under), ``summation`` says in which order sums are made.

What every code generator asks next is here too: ``parts`` cuts a kernel into loop nests with flat addresses, ``product`` and
``convolution`` bring contractions to their normal forms. Graphs are above: nothing here knows a node or a device.
"""
