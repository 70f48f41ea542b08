"""What may leave a client."""

from fedjigsaw.privacy.guard import Guard

__all__ = ["Guard"]
