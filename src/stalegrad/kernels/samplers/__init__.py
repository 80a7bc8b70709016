"""stalegrad's samplers, one file each: the update formula, its state and the kernel a user holds.

None imports another. A file here is one of them once :mod:`stalegrad.kernels` has a line that imports it.
"""
