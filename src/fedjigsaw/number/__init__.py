"""The number of clusters: chosen from what clients sent, with honest doubt.

:mod:`~fedjigsaw.number.local_cells` is the client's half. At the server,
:mod:`~fedjigsaw.number.decision` chooses, and :mod:`~fedjigsaw.number.findings` says how sure that
is. Rows are labeled by :mod:`~fedjigsaw.number.shapes`.
"""
