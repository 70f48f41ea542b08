"""Internal: experiments of the paper. Users run them with ``fedjigsaw reproduce`` and ``simulate``.

A cell (data set, split, method, seed) gives one row; rows are kept as JSON lines; tables, pages and
pictures are made from rows alone.
"""
