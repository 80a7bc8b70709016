"""Reproductions of the paper's figures, each a function from settings to numbers and a picture.

Only the command line and benchmarks import this folder: what users need for runs of their own is elsewhere.
"""
