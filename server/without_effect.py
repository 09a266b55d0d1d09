"""Fields of OpenAI's and Anthropic's requests that say nothing about the answer (books, billing, caching, speed): they are taken."""

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

WITHOUT_EFFECT_FOR_ANTHROPIC = WITHOUT_EFFECT | {
    "cache_control",
    "service_tier",
    "speed",
    "inference_geo",
    "container",
    "context_management",
    "fallbacks",
    "fallback_credit_token",
    "billing_policy",
    "diagnostics",
    "user_profile_id",
    "workspace_id",
    "betas",  # headers, which some clients send in the body
    "anthropic_beta",
    "anthropic_version",
}
