"""All architectures side by side: error against gradients, against messages and against time with a straggler."""

from stalegrad.experiments.architectures.comparison import Settings, reproduce, save

__all__ = ["Settings", "reproduce", "save"]
