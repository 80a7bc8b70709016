"""A step of SGHMC on LeNet, beside the bare gradient and the peers: :mod:`networks` for the one network.

    python benchmarks/lenet.py [--json FILE]

writes at the top of its JSON ``step_over_gradient``, ``ratio_to_posteriors``, ``ratio_to_blackjax`` and
``two_processes``.
"""

from networks import main

if __name__ == "__main__":
    main()
