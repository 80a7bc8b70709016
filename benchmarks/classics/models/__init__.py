"""One family of models a file: the NumPyro model, the seeded generator of its data, and what is hard about it."""
