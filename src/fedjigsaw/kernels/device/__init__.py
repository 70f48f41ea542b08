"""k-means on a GPU, by torch: that of clients, the server's solver, and nearest centers.

It needs the extra ``deep``. Modules of this package import torch, which takes a while, so they are
imported where they are used. :mod:`~fedjigsaw.kernels.device.backend` is what others call, and
:mod:`~fedjigsaw.kernels.device.lloyd` has Lloyd's iterations, which also run on a CPU.
"""
