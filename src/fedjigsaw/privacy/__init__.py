"""What may leave a client: guards, and differential privacy."""

from fedjigsaw.privacy.dp import Privacy
from fedjigsaw.privacy.guard import Guard

__all__ = ["Guard", "Privacy"]
