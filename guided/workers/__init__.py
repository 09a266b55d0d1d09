"""Constraints compiled in processes of their own, bounded in number, time and memory; knows no HTTP and no engine.

Pool (in the server, asyncio) -> Nursery (one process, warm, forks) -> workers (run `jobs`)
"""

from guided.workers.pool import Pool, PoolOptions
from guided.workers.queue import Overloaded, Priority

__all__ = ["Overloaded", "Pool", "PoolOptions", "Priority"]
