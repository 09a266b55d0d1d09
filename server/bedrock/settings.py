"""In: variables that begin with GUIDED_BEDROCK_; out: one frozen settings object. Connects to nothing."""

from __future__ import annotations

import os
from typing import Any

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from server.variables import unknown_variables

PREFIX = "GUIDED_BEDROCK_"


class BedrockSettings(BaseSettings):
    """What this gateway can be told; AWS's own variables (region, profile, role) are boto3's. Unknown GUIDED_BEDROCK_ names are errors."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _no_unknown_variables(cls, values: Any) -> Any:
        known = {PREFIX + name.upper() for name in cls.model_fields}
        if unknown := unknown_variables(PREFIX, known, os.environ):
            raise ValueError("; ".join(unknown))
        return values

    models: dict[str, str] = Field(
        default={},
        validate_default=True,
        min_length=1,
        description="JSON object: name that clients give -> Bedrock's model id or inference profile",
    )
    api_keys: SecretStr = Field(
        default=SecretStr(""), description="keys that clients may send, separated by commas; empty: open"
    )
    api_keys_secret: str = Field(
        default="", description="ARN of a Secrets Manager secret with more keys, separated by commas"
    )
    region: str | None = Field(default=None, description="AWS region; boto3's own choice when unset")
    endpoint_url: str | None = Field(
        default=None, description="another address of Bedrock's runtime, such as a local stand-in"
    )
    attempts: int = Field(
        default=3, ge=1, le=10, description="generations per request until an answer satisfies its constraint"
    )
    timeout_seconds: float = Field(default=60.0, gt=0, description="of one generation")
    max_tokens: int = Field(default=1024, ge=1, description="where the request says none")
    body_bytes: int = Field(default=1 << 20, ge=1024, description="size of one request")
    strict_tools: bool = Field(default=False, description="ask Bedrock to enforce the schema; not every model can")
    answer_cache: str = Field(
        default="", description="answers at temperature 0: `memory`, `dynamodb:TABLE` or a Redis URL; empty: none"
    )
    answer_cache_seconds: int = Field(default=3600, ge=1, description="life of a cached answer")
