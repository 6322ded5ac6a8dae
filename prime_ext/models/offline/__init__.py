"""The offline agent: the default when no model is connected."""

from __future__ import annotations

from prime_ext.models.offline.model import OfflineModel

__all__ = ["OfflineModel"]
