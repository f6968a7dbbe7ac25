"""Tools for people: explain, profile and bench, the command line, the convnet benchmark.

They look at what the layers below have made (programs, kernels, times) and change nothing.
"""
