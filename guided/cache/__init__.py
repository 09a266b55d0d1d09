"""Where compiled indexes are kept: memory, files, and optionally Redis or Valkey. Knows no constraint language and no HTTP."""

from guided.cache.address import generation, is_digest
from guided.cache.disk import Disk, default_folder
from guided.cache.files import DISK, SPARE, Files
from guided.cache.memory import Memory
from guided.cache.remote import Remote, RemoteOptions
from guided.cache.spare import Spare, spare_folder
from guided.cache.store import REMOTE, Found, Store

__all__ = [
    "DISK",
    "REMOTE",
    "SPARE",
    "Disk",
    "Files",
    "Found",
    "Memory",
    "Remote",
    "RemoteOptions",
    "Spare",
    "Store",
    "default_folder",
    "generation",
    "is_digest",
    "spare_folder",
]
