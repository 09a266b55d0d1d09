# What Prometheus in the cluster cannot see, and mail about money. The budget is an alert, not a limit: what stops the spending is var.max_gpus.

locals {
  cache_nodes = [for number in ["001", "002"] : "${aws_elasticache_replication_group.this.replication_group_id}-${number}"]
}

module "notify" {
  source = "../modules/notify"

  name               = var.name
  kms_key_arn        = module.key.arn
  emails             = var.alert_emails
  monthly_budget_usd = var.monthly_budget_usd

  alarms = merge(
    # Its memory is full in the end, as that of every cache; what counts is how much it forgets.
    { for node in local.cache_nodes : "cache-evictions/${node}" => {
      namespace = "AWS/ElastiCache", metric = "Evictions", dimensions = { CacheClusterId = node }
      statistic = "Sum", threshold = 1000, period = 3600, periods = 1
      says      = "The shared cache forgot more than a thousand entries in an hour."
    } },
    { for node in local.cache_nodes : "cache-busy/${node}" => {
      namespace = "AWS/ElastiCache", metric = "EngineCPUUtilization", dimensions = { CacheClusterId = node }
      statistic = "Average", threshold = 80, period = 300, periods = 3
      says      = "The shared cache computes all the time for a quarter of an hour."
    } },
    { for name, rule in aws_cloudwatch_event_rule.interruptions : "interruptions-lost/${name}" => {
      namespace = "AWS/Events", metric = "FailedInvocations", dimensions = { RuleName = rule.name }
      statistic = "Sum", threshold = 0, period = 300, periods = 1
      says      = "What EC2 said of a node never came to Karpenter's queue."
    } },
    {
      interruptions-unread = {
        namespace = "AWS/SQS", metric = "ApproximateAgeOfOldestMessage", dimensions = { QueueName = aws_sqs_queue.interruptions.name }
        statistic = "Maximum", threshold = 60, period = 60, periods = 2
        says      = "Karpenter does not read what EC2 says of its nodes."
      }
      nat-ports = {
        namespace = "AWS/NATGateway", metric = "ErrorPortAllocation", dimensions = { NatGatewayId = module.network.nat_gateway_id }
        statistic = "Sum", threshold = 0, period = 300, periods = 1
        says      = "Connections to the Internet failed: too many to one address at once."
      }
    },
  )
}
