# For about 1,000 requests a day: the gateway on Fargate, in two zones behind a load balancer, with ElastiCache for its answers.

module "network" {
  source = "../modules/network"

  name  = var.name
  cidr  = var.cidr
  zones = var.availability_zones
}

locals {
  platform_seconds = 120 # how long the balancer waits for a byte, and a task that has to go for its answers: Fargate allows no more
}

module "gateway" {
  source = "../modules/gateway"

  name             = var.name
  models           = var.models
  model_arns       = var.model_arns
  platform_seconds = local.platform_seconds
  settings         = var.settings
}

module "watch" {
  source = "../modules/watch"

  name            = var.name
  log_group       = aws_cloudwatch_log_group.this.name
  tokens_per_hour = var.tokens_per_hour
  p99_seconds     = 20
}

module "notify" {
  source = "../modules/notify"

  name               = var.name
  kms_key_arn        = module.gateway.kms_key_arn
  emails             = var.alert_emails
  monthly_budget_usd = var.monthly_budget_usd

  # The second part is what AWS itself counts, whether or not a request reached the gateway and its log.
  alarms = merge(module.watch.alarms, {
    balancer-errors = {
      namespace = "AWS/ApplicationELB", metric = "HTTPCode_ELB_5XX_Count", dimensions = { LoadBalancer = aws_lb.this.arn_suffix }
      statistic = "Sum", threshold = 5, period = 300, periods = 1
      says      = "The balancer itself answered with 5xx: no task took the request, or none answered in time."
    }
    target-errors = {
      namespace = "AWS/ApplicationELB", metric = "HTTPCode_Target_5XX_Count", dimensions = { LoadBalancer = aws_lb.this.arn_suffix }
      statistic = "Sum", threshold = 5, period = 300, periods = 1
      says      = "Tasks answered with 5xx, as the balancer counts them."
    }
    unhealthy-tasks = {
      namespace  = "AWS/ApplicationELB", metric = "UnHealthyHostCount"
      dimensions = { LoadBalancer = aws_lb.this.arn_suffix, TargetGroup = aws_lb_target_group.this.arn_suffix }
      statistic  = "Maximum", threshold = 0, period = 60, periods = 10
      says       = "A task has not answered its health check for ten minutes."
    }
  })
}

output "base_url" {
  description = "base_url of an OpenAI client, once the certificate's name points to it"
  value       = "https://${aws_lb.this.dns_name}/v1"
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
