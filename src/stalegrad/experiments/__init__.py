"""Reproductions of the paper's figures, each a function from settings to numbers and a picture."""
