# What the gateway on Bedrock is told and may do, wherever it runs: environment variables, and a policy for its role.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "name" {
  description = "Prefix of the names"
  type        = string
}

variable "models" {
  description = "Name that clients give -> Bedrock's model id or inference profile"
  type        = map(string)

  validation {
    condition     = length(var.models) > 0
    error_message = "At least one model."
  }
}

variable "model_arns" {
  description = "Foundation models and inference profiles that may be called"
  type        = list(string)
}

variable "platform_seconds" {
  description = "What stands before the gateway waits this long for an answer, and not longer"
  type        = number
}

variable "settings" {
  description = "Settings of server/bedrock/settings.py by their names"
  type        = map(string)

  validation {
    # models and api_keys have ways of their own into the gateway.
    condition = alltrue([for name in keys(var.settings) : contains([
      "answer_cache", "answer_cache_seconds", "api_keys_secret", "attempts", "body_bytes", "check_processes", "check_seconds",
      "concurrent_requests", "connections", "endpoint_url", "max_tokens", "region", "request_seconds", "requests_per_minute",
      "strict_tools", "timeout_seconds",
    ], name)])
    error_message = "Unknown setting; the names are those of server/bedrock/settings.py."
  }

  validation {
    condition     = tonumber(lookup(var.settings, "request_seconds", "0")) < var.platform_seconds
    error_message = "request_seconds has to be below the time that what stands before the gateway waits."
  }
}

data "aws_secretsmanager_random_password" "key" {
  password_length     = 48
  exclude_punctuation = true
}

module "key" {
  source = "../key"

  description = "API keys, logs and caches of ${var.name}"
}

resource "aws_secretsmanager_secret" "keys" {
  name        = "${var.name}/api-keys"
  description = "Keys that clients of ${var.name} may send, separated by commas"
  kms_key_id  = module.key.arn
}

resource "aws_secretsmanager_secret_version" "keys" {
  secret_id     = aws_secretsmanager_secret.keys.id
  secret_string = data.aws_secretsmanager_random_password.key.random_password

  lifecycle {
    ignore_changes = [secret_string] # made once; changed by hand when a client comes or goes
  }
}

data "aws_iam_policy_document" "this" {
  statement {
    sid       = "CallModels"
    actions   = ["bedrock:InvokeModel"]
    resources = var.model_arns
  }

  statement {
    sid       = "ReadKeys"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [aws_secretsmanager_secret.keys.arn]
  }

  statement {
    sid       = "Decrypt"
    actions   = ["kms:Decrypt"]
    resources = [module.key.arn]
  }
}

output "environment" {
  description = "Variable -> value"
  value = merge(
    { GUIDED_BEDROCK_REQUEST_SECONDS = tostring(var.platform_seconds - 10) },
    { for name, text in var.settings : "GUIDED_BEDROCK_${upper(name)}" => text },
    {
      GUIDED_BEDROCK_MODELS          = jsonencode(var.models)
      GUIDED_BEDROCK_API_KEYS_SECRET = aws_secretsmanager_secret.keys.arn
    },
  )
}

output "policy" {
  description = "What the gateway's role may do"
  value       = data.aws_iam_policy_document.this.json
}

output "kms_key_arn" {
  description = "Key for everything that this deployment keeps"
  value       = module.key.arn
}

output "keys_secret_arn" {
  description = "The secret with the API keys"
  value       = aws_secretsmanager_secret.keys.arn
}
