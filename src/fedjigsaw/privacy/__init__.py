"""Guards: rules that a summary passes before it leaves a client."""

from fedjigsaw.privacy.guard import Guard

__all__ = ["Guard"]
