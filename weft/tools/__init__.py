"""Tools for users: explain, profile, bench and the command line.

They report programs, kernels and times of the layers below and change nothing.
"""
