"""Mistakes that are planted into the product, which show whether the simulation would find real ones."""
