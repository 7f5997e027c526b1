"""Hypothetical questions over HTTP: the question is a JSON body, and the answer repeats its situation."""
