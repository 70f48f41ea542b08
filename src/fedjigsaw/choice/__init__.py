"""The number of clusters: chosen from what clients sent, with honest doubt.

:mod:`~fedjigsaw.choice.local_cells` is the client's half. At the server,
:mod:`~fedjigsaw.choice.decision` chooses, and :mod:`~fedjigsaw.choice.findings` says how sure that
is. Rows are labeled by :mod:`~fedjigsaw.choice.shapes`.
"""
