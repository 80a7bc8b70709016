"""The test loss of the paper's three models: figures 3 and 4, the supplement, and what follows from averaging."""
