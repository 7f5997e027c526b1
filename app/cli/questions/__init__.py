"""Commands that ask hypothetical questions: one module per command, as in the folder above."""
