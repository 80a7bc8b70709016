"""The test loss of the paper's three models: figures 3 and 4, the supplement, and what follows from averaging.

A figure is many units, each a chain of one task, executed by processes and kept in ``unit_folder.py``'s folder so that
an interrupted reproduction goes on. Networks and data are in ``potentials`` and ``datasets``.
"""
