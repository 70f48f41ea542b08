"""The same methods on a real federation, with Flower: needs ``pip install 'fedjigsaw[flower]'``."""
