"""How an option is declared, all options of `reactor run`, and their defaults by where it runs."""
