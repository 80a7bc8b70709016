"""Support that every part may use and no user imports: errors, types, checks of arguments, plain tables, compilation.

Nothing here depends on gradients, chains or runs; what users catch or annotate with is exported at the root.
"""
