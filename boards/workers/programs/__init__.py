"""Programs that the product brings along for command workers. Standard library only; each runs as `python -m`."""
