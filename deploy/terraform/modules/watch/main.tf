# Metrics, alarms and saved queries over the gateway's log (one line of JSON per request), a budget, and a report of cost every day.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "name" {
  description = "Prefix of the names, and value of the tag Project"
  type        = string
}

variable "log_group" {
  description = "Name of the log group with the gateway's requests"
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the topic"
  type        = string
}

variable "image" {
  description = "The gateway's image, which carries the cost report"
  type        = string
}

variable "emails" {
  description = "Who is told"
  type        = list(string)

  validation {
    condition     = length(var.emails) > 0
    error_message = "Alarms that tell nobody guard nothing."
  }
}

variable "monthly_budget_usd" {
  description = "Budget per month"
  type        = number
}

variable "tokens_per_hour" {
  description = "Generated tokens per hour above which an alarm is raised"
  type        = number
}

variable "p99_seconds" {
  description = "Seconds above which the slowest 1% of the requests raise an alarm"
  type        = number
}

variable "platform_alarms" {
  description = "What AWS itself counts, whether or not a request reached the gateway and its log"
  type = map(object({
    namespace  = string
    metric     = string
    dimensions = map(string)
    statistic  = string
    threshold  = number
    period     = number
    periods    = number
    says       = string
  }))
}

locals {
  namespace = "Guided/${var.name}"

  metrics = {
    Requests     = { pattern = "{ $.status = * }", value = "1" }
    ServerErrors = { pattern = "{ $.status >= 500 }", value = "1" }
    Refusals     = { pattern = "{ $.status >= 400 && $.status < 500 }", value = "1" }
    Seconds      = { pattern = "{ $.seconds = * }", value = "$.seconds" }
    InputTokens  = { pattern = "{ $.input_tokens = * }", value = "$.input_tokens" }
    OutputTokens = { pattern = "{ $.output_tokens = * }", value = "$.output_tokens" }
    Retries      = { pattern = "{ $.attempts > 1 }", value = "1" }
  }

  log_alarms = {
    server-errors = {
      metric = "ServerErrors", statistic = "Sum", threshold = 5, period = 300, periods = 1
      says   = "More than five requests in five minutes ended in a server error."
    }
    slow = {
      metric = "Seconds", statistic = "p99", threshold = var.p99_seconds, period = 300, periods = 3
      says   = "One request in a hundred is slow for a quarter of an hour."
    }
    token-spike = {
      metric = "OutputTokens", statistic = "Sum", threshold = var.tokens_per_hour, period = 3600, periods = 1
      says   = "More tokens in an hour than this deployment is meant for."
    }
    constraints-not-met = {
      metric = "Retries", statistic = "Sum", threshold = 20, period = 3600, periods = 1
      says   = "Models break their constraints often, and every try is paid for."
    }
  }

  alarms = merge(
    { for name, alarm in local.log_alarms : name => merge(alarm, { namespace = local.namespace, dimensions = null }) },
    var.platform_alarms,
  )

  queries = {
    tokens-by-model-and-hour  = "filter status = 200 | stats sum(input_tokens) as input, sum(output_tokens) as output, count() as requests by model, bin(1h) | sort output desc"
    latency-p50-p95-p99       = "filter status = 200 | stats pct(seconds, 50) as p50, pct(seconds, 95) as p95, pct(seconds, 99) as p99 by constraint, bin(15m)"
    refusals-by-code          = "filter status >= 400 | stats count() as requests by status, code | sort requests desc"
    attempts-per-answer       = "filter status = 200 and cached = 0 | stats avg(attempts) as attempts, count() as requests by model, constraint"
    share-answered-from-cache = "filter status = 200 | stats avg(cached) as share, count() as requests by bin(1h)"
  }
}

resource "aws_sns_topic" "this" {
  name              = "${var.name}-alarms"
  kms_master_key_id = var.kms_key_arn
}

resource "aws_sns_topic_subscription" "this" {
  for_each = toset(var.emails)

  topic_arn = aws_sns_topic.this.arn
  protocol  = "email"
  endpoint  = each.value
}

resource "aws_cloudwatch_log_metric_filter" "this" {
  for_each = local.metrics

  name           = "${var.name}-${each.key}"
  log_group_name = var.log_group
  pattern        = each.value.pattern

  metric_transformation {
    namespace = local.namespace
    name      = each.key
    value     = each.value.value
  }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = local.alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "${each.value.says} deploy/README.md, ${each.key}"
  namespace           = each.value.namespace
  dimensions          = each.value.dimensions
  metric_name         = each.value.metric
  statistic           = startswith(each.value.statistic, "p") ? null : each.value.statistic
  extended_statistic  = startswith(each.value.statistic, "p") ? each.value.statistic : null
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  period              = each.value.period
  evaluation_periods  = each.value.periods
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.this.arn]
  ok_actions          = [aws_sns_topic.this.arn]
}

resource "aws_cloudwatch_query_definition" "this" {
  for_each = local.queries

  name            = "${var.name}/${each.key}"
  log_group_names = [var.log_group]
  query_string    = each.value
}

resource "aws_budgets_budget" "this" {
  name         = var.name
  budget_type  = "COST"
  limit_amount = tostring(var.monthly_budget_usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  cost_filter {
    name   = "TagKeyValue"
    values = [format("user:Project$%s", var.name)]
  }

  dynamic "notification" {
    for_each = { ACTUAL = 80, FORECASTED = 100 }
    content {
      notification_type          = notification.key
      threshold                  = notification.value
      threshold_type             = "PERCENTAGE"
      comparison_operator        = "GREATER_THAN"
      subscriber_email_addresses = var.emails
    }
  }
}

# --- the report of the day ----------------------------------------------------------------------------------------------

data "aws_iam_policy_document" "trust" {
  for_each = { report = "lambda.amazonaws.com", schedule = "scheduler.amazonaws.com" }

  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = [each.value]
    }
  }
}

data "aws_iam_policy_document" "report" {
  statement {
    actions   = ["ce:GetCostAndUsage"]
    resources = ["*"] # the cost explorer knows no resources
  }

  statement {
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.this.arn]
  }

  statement {
    actions   = ["kms:GenerateDataKey*", "kms:Decrypt"]
    resources = [var.kms_key_arn]
  }

  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.report.arn}:*"]
  }
}

resource "aws_iam_role" "report" {
  name               = "${var.name}-cost-report"
  assume_role_policy = data.aws_iam_policy_document.trust["report"].json
}

resource "aws_iam_role_policy" "report" {
  name   = "report"
  role   = aws_iam_role.report.id
  policy = data.aws_iam_policy_document.report.json
}

resource "aws_cloudwatch_log_group" "report" {
  name              = "/aws/lambda/${var.name}-cost-report"
  retention_in_days = 365
  kms_key_id        = var.kms_key_arn
}

resource "aws_lambda_function" "report" {
  function_name                  = "${var.name}-cost-report"
  role                           = aws_iam_role.report.arn
  package_type                   = "Image"
  image_uri                      = var.image
  timeout                        = 60
  memory_size                    = 256
  reserved_concurrent_executions = 1
  kms_key_arn                    = var.kms_key_arn

  image_config {
    entry_point = ["python3", "-m", "awslambdaric"]
    command     = ["cost_report.handler"]
  }

  environment {
    variables = {
      PROJECT            = var.name
      TOPIC_ARN          = aws_sns_topic.this.arn
      MONTHLY_BUDGET_USD = tostring(var.monthly_budget_usd)
    }
  }

  tracing_config {
    mode = "Active"
  }

  depends_on = [aws_cloudwatch_log_group.report]
}

resource "aws_iam_role" "schedule" {
  name               = "${var.name}-cost-report-schedule"
  assume_role_policy = data.aws_iam_policy_document.trust["schedule"].json
}

data "aws_iam_policy_document" "schedule" {
  statement {
    actions   = ["lambda:InvokeFunction"]
    resources = [aws_lambda_function.report.arn]
  }
}

resource "aws_iam_role_policy" "schedule" {
  name   = "invoke"
  role   = aws_iam_role.schedule.id
  policy = data.aws_iam_policy_document.schedule.json
}

resource "aws_scheduler_schedule" "report" {
  name                = "${var.name}-cost-report"
  schedule_expression = "cron(0 7 * * ? *)"
  kms_key_arn         = var.kms_key_arn

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = aws_lambda_function.report.arn
    role_arn = aws_iam_role.schedule.arn
  }
}

output "alarms" {
  description = "Names of the alarms, which are headings of the runbook"
  value       = keys(local.alarms)
}

output "topic_arn" {
  description = "Where alarms and the report go"
  value       = aws_sns_topic.this.arn
}
