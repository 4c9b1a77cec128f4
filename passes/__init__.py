"""Passes over modules: analyses, canonical forms, checks, and the registry of all of them."""
