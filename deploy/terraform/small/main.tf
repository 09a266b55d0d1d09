# For about 100 requests a day: a function that costs nothing while nobody asks, and a table for answers that need not be paid twice.

locals {
  platform_seconds = 120 # how long one call of the function may take
}

module "gateway" {
  source = "../modules/gateway"

  name             = var.name
  models           = var.models
  model_arns       = var.model_arns
  platform_seconds = local.platform_seconds
  settings         = merge({ answer_cache = "dynamodb:${aws_dynamodb_table.answers.name}" }, var.settings)
}

module "watch" {
  source = "../modules/watch"

  name            = var.name
  log_group       = aws_cloudwatch_log_group.this.name
  tokens_per_hour = var.tokens_per_hour
  p99_seconds     = 30
}

module "notify" {
  source = "../modules/notify"

  name               = var.name
  kms_key_arn        = module.gateway.kms_key_arn
  emails             = var.alert_emails
  monthly_budget_usd = var.monthly_budget_usd

  # The second part is what AWS itself counts, whether or not a request reached the gateway and its log.
  alarms = merge(module.watch.alarms, {
    function-errors = {
      namespace = "AWS/Lambda", metric = "Errors", dimensions = { FunctionName = aws_lambda_function.this.function_name }
      statistic = "Sum", threshold = 2, period = 300, periods = 1
      says      = "The function failed or ran into its time limit: no line in the log tells of such requests."
    }
    function-throttles = {
      namespace = "AWS/Lambda", metric = "Throttles", dimensions = { FunctionName = aws_lambda_function.this.function_name }
      statistic = "Sum", threshold = 5, period = 300, periods = 1
      says      = "Requests were turned away because all copies of the function were busy."
    }
  })
}

resource "aws_dynamodb_table" "answers" {
  name         = "${var.name}-answers"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "digest"

  attribute {
    name = "digest"
    type = "S"
  }

  ttl {
    attribute_name = "expires"
    enabled        = true
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = module.gateway.kms_key_arn
  }
}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "this" {
  source_policy_documents = [module.gateway.policy]

  statement {
    sid       = "Answers"
    actions   = ["dynamodb:GetItem", "dynamodb:PutItem"]
    resources = [aws_dynamodb_table.answers.arn]
  }

  statement {
    sid       = "EncryptAnswers"
    actions   = ["kms:GenerateDataKey*"]
    resources = [module.gateway.kms_key_arn]
  }

  statement {
    sid       = "Log"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.this.arn}:*"]
  }

  # Without it Lambda refuses a function that is to be traced.
  statement {
    sid       = "Trace"
    actions   = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
    resources = ["*"]
  }
}

resource "aws_iam_role" "this" {
  name               = var.name
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "this" {
  name   = "gateway"
  role   = aws_iam_role.this.id
  policy = data.aws_iam_policy_document.this.json
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/aws/lambda/${var.name}"
  retention_in_days = 365
  kms_key_id        = module.gateway.kms_key_arn
}

resource "aws_lambda_function" "this" {
  function_name                  = var.name
  role                           = aws_iam_role.this.arn
  package_type                   = "Image"
  image_uri                      = var.image
  timeout                        = local.platform_seconds
  memory_size                    = 1024
  reserved_concurrent_executions = 10 # the ceiling of what a client in a loop can cost
  kms_key_arn                    = module.gateway.kms_key_arn

  image_config {
    entry_point = ["python3", "-m", "awslambdaric"]
    command     = ["server.bedrock.start.lambda_handler"]
  }

  environment {
    variables = module.gateway.environment
  }

  tracing_config {
    mode = "Active"
  }

  depends_on = [aws_cloudwatch_log_group.this, aws_iam_role_policy.this]
}

# The gateway checks the API key itself; AWS's own authorisation would need signed requests, which OpenAI's clients do not make.
resource "aws_lambda_function_url" "this" {
  function_name      = aws_lambda_function.this.function_name
  authorization_type = "NONE"
}

resource "aws_lambda_permission" "url" {
  statement_id           = "url"
  action                 = "lambda:InvokeFunctionUrl"
  function_name          = aws_lambda_function.this.function_name
  principal              = "*"
  function_url_auth_type = "NONE"
}

# Since October 2025 a URL needs this beside it. The condition keeps everybody from calling the function by any other way; the provider
# knows it from 6.29 on only (`invoked_via_function_url`), CloudFormation has always known it.
resource "aws_cloudformation_stack" "url" {
  name              = "${var.name}-url"
  notification_arns = [module.notify.topic_arn]
  template_body = jsonencode({
    Resources = {
      InvokeThroughUrl = {
        Type = "AWS::Lambda::Permission"
        Properties = {
          Action                = "lambda:InvokeFunction"
          FunctionName          = aws_lambda_function.this.function_name
          Principal             = "*"
          InvokedViaFunctionUrl = true
        }
      }
    }
  })
}

output "base_url" {
  description = "base_url of an OpenAI client"
  value       = "${aws_lambda_function_url.this.function_url}v1"
}

output "keys_secret_arn" {
  description = "The secret with the API keys"
  value       = module.gateway.keys_secret_arn
}

output "environment" {
  description = "What the gateway is told"
  value       = module.gateway.environment
}

output "alarms" {
  description = "Heading of deploy/README.md -> the alarms that it is about"
  value       = module.notify.alarms
}
