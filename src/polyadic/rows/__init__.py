"""Rows: what a table of numbers is, adds up to, and looks like to a fit."""
