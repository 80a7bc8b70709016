"""Where draws go while a run goes on: into memory, or to disk block by block.

Both do the same behind one contract. Which updates become draws is decided by the protocol; what is computed from
draws is ``analysis``.
"""
