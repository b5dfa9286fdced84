"""``python -m polyadic.cli``: the command without its script."""

from polyadic.cli import main

main(prog_name="polyadic")
