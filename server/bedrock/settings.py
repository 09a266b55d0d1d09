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

    @model_validator(mode="after")
    def _one_generation_fits(self) -> BedrockSettings:
        if self.timeout_seconds > self.request_seconds:
            raise ValueError(
                f"timeout_seconds {self.timeout_seconds:g} is above request_seconds {self.request_seconds:g}"
            )
        return self

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
    request_seconds: float = Field(
        default=110.0,
        gt=0,
        description="of one request, all its attempts together; less than what stands before the gateway waits",
    )
    timeout_seconds: float = Field(default=60.0, gt=0, description="of one generation")
    connections: int = Field(default=80, ge=1, description="generations at once; beyond it the answer is 503")
    requests_per_minute: int | None = Field(default=None, ge=1, description="of each key; beyond it the answer is 429")
    concurrent_requests: int | None = Field(
        default=40, ge=1, description="of each key that are answered at a time; beyond it the answer is 429"
    )
    check_seconds: float = Field(
        default=5.0, gt=0, description="for reading a schema, and for checking an answer by it"
    )
    check_processes: int = Field(default=2, ge=1, description="processes that do this")
    max_tokens: int = Field(default=1024, ge=1, description="where the request says none")
    body_bytes: int = Field(default=1 << 20, ge=1024, description="size of one request")
    strict_tools: bool = Field(default=False, description="ask Bedrock to enforce the schema; not every model can")
    answer_cache: str = Field(
        default="", description="answers at temperature 0: `memory`, `dynamodb:TABLE` or a Redis URL; empty: none"
    )
    answer_cache_seconds: int = Field(default=3600, ge=1, description="life of a cached answer")
