"""LeNet on MNIST with equal gradients: what the ways to be uncertain about a network are worth.

``stalegrad reproduce deep``: six methods, several seeds, one unit of work a method and seed, each in a file of its own,
so that what is interrupted goes on.
"""
