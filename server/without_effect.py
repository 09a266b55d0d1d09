"""Fields of OpenAI's requests that say nothing about the answer (books, billing, caching, speed): every gateway takes them."""

WITHOUT_EFFECT = frozenset(
    {
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prediction",
        "user",
    }
)
