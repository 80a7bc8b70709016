"""Classic posteriors with made-up data, their references by long NUTS runs, and how a run is held against them.

:mod:`classics.catalogue` lists the models, one small family a file in ``models``; ``references`` has what NUTS found,
written by ``python benchmarks/classic_references.py``; :mod:`classics.accuracy` compares.
"""
