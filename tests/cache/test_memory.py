"""The memory tier: least recently used first, counted in bytes."""

from __future__ import annotations

from guided.cache import Memory


def test_the_least_recently_used_goes_first():
    memory: Memory[str] = Memory(100)
    for name in "abc":
        memory.put(name, name.upper(), 40) if name != "c" else None
    assert memory.get("a") == "A"
    memory.put("c", "C", 40)
    assert (memory.get("a"), memory.get("b"), memory.get("c")) == ("A", None, "C")
    assert (memory.used_bytes, memory.evictions, len(memory)) == (80, 1, 2)


def test_what_is_put_again_counts_once():
    memory: Memory[int] = Memory(100)
    memory.put("a", 1, 60)
    memory.put("a", 2, 70)
    assert (memory.get("a"), memory.used_bytes, memory.evictions) == (2, 70, 0)


def test_one_that_is_too_large_stays_until_the_next():
    memory: Memory[int] = Memory(100)
    memory.put("a", 1, 500)
    assert memory.get("a") == 1
    memory.put("b", 2, 10)
    assert (memory.get("a"), memory.get("b"), memory.used_bytes) == (None, 2, 10)


def test_flush_and_counts():
    memory: Memory[int] = Memory(100)
    memory.put("a", 1, 10)
    memory.get("a")
    memory.get("b")
    assert (memory.hits, memory.misses, memory.flush(), memory.used_bytes) == (1, 1, 1, 0)
    memory.drop("a")
    assert memory.used_bytes == 0
