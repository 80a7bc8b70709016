"""Observers for the tools that people have: JSON lines, whatever has a ``log``, TensorBoard, MLflow, Prometheus.

Each is one file. Those that need a package of their own import it when they are made, and nowhere else.
"""
