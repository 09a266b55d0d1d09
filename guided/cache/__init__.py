"""Where compiled indexes are kept: memory, disk, and optionally Redis or Valkey. Knows no constraint language and no HTTP."""

from guided.cache.address import generation, is_digest
from guided.cache.disk import Disk, default_folder
from guided.cache.memory import Memory
from guided.cache.remote import Remote, RemoteOptions
from guided.cache.store import REMOTE, Found, Store

__all__ = [
    "REMOTE",
    "Disk",
    "Found",
    "Memory",
    "Remote",
    "RemoteOptions",
    "Store",
    "default_folder",
    "generation",
    "is_digest",
]
