"""The commands of `reactor`, one file each; each imports its dependencies, Typer apart, when it runs."""
