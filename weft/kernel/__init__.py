"""Represent and analyse one kernel, independently of any device.

``ir`` defines the representation: phases of loop nests over axes, with loads, stores, reductions, contractions and chains.
``expressions`` builds and walks its values, ``index`` maps positions through shape operations, ``summation`` defines the order of
sums, ``target`` describes a device, and ``printer`` prints a kernel; compiled code is cached under the printed text.

Code generators share ``stages``, which cuts a kernel into loop nests with flat addresses, ``product`` and ``convolution``, which
bring contractions to a normal form, ``hazards``, which finds outputs that may overwrite inputs, and ``storage``, which changes
the memory order of arguments. This package imports neither graphs nor devices.
"""
