"""``python -m hatlens`` is the command ``hatlens``."""

from hatlens.cli import main

if __name__ == "__main__":
    main()
