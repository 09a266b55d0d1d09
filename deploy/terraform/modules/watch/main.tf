# Metrics and saved queries over the gateway's log (one line of JSON per request), and what to raise an alarm on.

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

variable "tokens_per_hour" {
  description = "Generated tokens per hour above which an alarm is raised"
  type        = number
}

variable "p99_seconds" {
  description = "Seconds above which the slowest 1% of the requests raise an alarm"
  type        = number
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

  alarms = {
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

  queries = {
    tokens-by-model-and-hour  = "filter status = 200 | stats sum(input_tokens) as input, sum(output_tokens) as output, count() as requests by model, bin(1h) | sort output desc"
    latency-p50-p95-p99       = "filter status = 200 | stats pct(seconds, 50) as p50, pct(seconds, 95) as p95, pct(seconds, 99) as p99 by constraint, bin(15m)"
    refusals-by-code          = "filter status >= 400 | stats count() as requests by status, code | sort requests desc"
    attempts-per-answer       = "filter status = 200 and cached = 0 | stats avg(attempts) as attempts, count() as requests by model, constraint"
    share-answered-from-cache = "filter status = 200 | stats avg(cached) as share, count() as requests by bin(1h)"
  }
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

resource "aws_cloudwatch_query_definition" "this" {
  for_each = local.queries

  name            = "${var.name}/${each.key}"
  log_group_names = [var.log_group]
  query_string    = each.value
}

output "alarms" {
  description = "For the module notify"
  value       = { for name, alarm in local.alarms : name => merge(alarm, { namespace = local.namespace, dimensions = {} }) }
}
