"""Run the command line as ``python -m fedjigsaw``."""

from fedjigsaw.cli import main

if __name__ == "__main__":
    main()
