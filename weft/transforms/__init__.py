"""What takes a function and gives another: jit, grad, vjp, vmap, scan.

``traced`` calls the user's function on placeholders, ``trace`` keeps what it reads and writes meanwhile, ``tree`` takes
arguments and results apart. ``jit`` finds a traced function by its arguments, ``entry`` calls it, ``warm`` without Python
where it can. ``device`` says where all of it runs.
"""
