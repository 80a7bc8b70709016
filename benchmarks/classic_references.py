"""The references of the classic posteriors: long runs of NumPyro's NUTS in double precision, kept as JSON.

They are committed, so that nobody needs to run this but who changes a model. A reference that NUTS itself has not
sampled well is refused: its worst R-hat must be below 1.01.

    python benchmarks/classic_references.py [--only logistic garch]
"""

import argparse
import sys
from collections.abc import Sequence

from classics import catalogue, reference

LARGEST_RHAT = 1.01


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description="Sample the references of the classic posteriors by NUTS.")
    parser.add_argument("--only", nargs="+", choices=list(catalogue.NAMES), default=list(catalogue.NAMES))
    return parser.parse_args(given)


def main() -> int:
    """Sample and write; the status is 1 if NUTS has not converged somewhere."""
    given = arguments()
    import jax

    jax.config.update("jax_enable_x64", True)
    refused = []
    for name in given.only:
        found, how = reference.nuts(catalogue.make(name))
        rhat = max(float(each.rhat.max()) for each in found.values())
        ess = min(float(each.ess.min()) for each in found.values())
        said = f"{name}: worst R-hat {rhat:.4f}, worst effective draws {ess:.0f}, {how}"
        if rhat < LARGEST_RHAT:
            said += f", written to {reference.write(catalogue.NAMES[name], found, how)}"
        else:
            refused.append(name)
        print(said, flush=True)
    if refused:
        print(f"not converged, not written: {', '.join(refused)}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
