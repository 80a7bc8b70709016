"""How points and gradients travel: in full, or rounded at random to fewer bits.

``rounding.py`` has the arithmetic: which value of a coarser grid stands for a number, by an address, so that a replay
rounds alike. ``packing.py`` has the bytes: rounded vectors go into fewer of them without loss. ``formats.py`` puts both
together under the names that users give. No input or output here.
"""

from stalegrad.potentials.wire.formats import EXACT, FORMATS, WireFormat, wire_format

__all__ = ["EXACT", "FORMATS", "WireFormat", "wire_format"]
