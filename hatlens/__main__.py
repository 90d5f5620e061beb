"""``python -m hatlens`` is the command ``hatlens``."""

from hatlens.cli.app import main

if __name__ == "__main__":
    main()
