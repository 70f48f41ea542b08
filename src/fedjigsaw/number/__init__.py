"""The number of clusters: chosen from what clients sent, with honest doubt.

Clients make :mod:`~fedjigsaw.number.cells`. The server fits mixtures to them
(:mod:`~fedjigsaw.number.search`), chooses (:mod:`~fedjigsaw.number.decide`), and says how sure that
is (:mod:`~fedjigsaw.number.confidence`). Rows are labeled by :mod:`~fedjigsaw.number.shapes`.
"""
