"""The commands of `reactor`, one file each; what a command needs beyond Typer it imports when it runs."""
