"""Experiments: the paper's tables as data, the rows measured for them, and pages made from rows.

A cell (data set, split, method, seed) gives one row; rows are kept as JSON lines; tables, pages and
pictures are made from rows alone.
"""
