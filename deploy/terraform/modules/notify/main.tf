# Who is told what: alarms, a budget, and a report of cost every day.

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

variable "kms_key_arn" {
  description = "Key of the topic, and of the log of the report"
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

variable "alarms" {
  description = "Heading of the runbook, or HEADING/which of several -> the alarm"
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
  report = "${path.module}/../../../monitoring/cost"

  alarms = merge(var.alarms, {
    cost-report = {
      namespace = "AWS/Lambda", metric = "Errors", dimensions = { FunctionName = "${var.name}-cost-report" }
      statistic = "Sum", threshold = 0, period = 3600, periods = 1
      says      = "Yesterday's cost could not be reported."
    }
  })
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

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = local.alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "${each.value.says} deploy/README.md, ${split("/", each.key)[0]}"
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

resource "aws_cloudformation_stack" "report" {
  name              = "${var.name}-cost-report"
  template_body     = file("${local.report}/report.yaml")
  capabilities      = ["CAPABILITY_IAM"]
  notification_arns = [aws_sns_topic.this.arn]

  parameters = {
    Project          = var.name
    TopicArn         = aws_sns_topic.this.arn
    KeyArn           = var.kms_key_arn
    MonthlyBudgetUsd = tostring(var.monthly_budget_usd)
    Code             = file("${local.report}/cost_report.py")
  }
}

output "alarms" {
  description = "Heading of the runbook -> the alarms that it is about"
  value       = { for name in keys(local.alarms) : split("/", name)[0] => name... }
}

output "topic_arn" {
  description = "Where all of it goes"
  value       = aws_sns_topic.this.arn
}
