"""Function transforms: jit, grad, vjp, vmap, scan.

``tracing`` calls the user's function with placeholders, ``trace`` records its reads and writes, ``tree`` flattens arguments and
results. ``jit`` finds a traced function by the key of its arguments, ``compiled_call`` calls it, without Python if it can.
``settings`` has the process-wide settings, such as the device.
"""
