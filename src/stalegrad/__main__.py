"""``python -m stalegrad`` is the command ``stalegrad``."""

from stalegrad.cli import main

if __name__ == "__main__":
    main()
