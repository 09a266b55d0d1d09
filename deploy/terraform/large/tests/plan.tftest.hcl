# terraform test, without an account: the provider is mocked, what is planned is checked.

mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_data "aws_secretsmanager_random_password" {
    defaults = { random_password = "not-a-real-password-but-long-enough-for-the-cache" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
  }
  mock_resource "aws_iam_instance_profile" {
    defaults = { arn = "arn:aws:iam::111122223333:instance-profile/mock" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:111122223333:key/mock" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-central-1:111122223333:mock" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-central-1:111122223333:mock", url = "https://sqs.eu-central-1.amazonaws.com/111122223333/mock" }
  }
  mock_resource "aws_eks_cluster" {
    defaults = {
      arn        = "arn:aws:eks:eu-central-1:111122223333:cluster/guided"
      vpc_config = { cluster_security_group_id = "sg-0123456789abcdef0" }
    }
  }
  mock_resource "aws_secretsmanager_secret" {
    defaults = { arn = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:mock", id = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:mock" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
  }
}

variables {
  alert_emails = ["oncall@example.com"]
}

run "defaults" {
  command = apply

  override_resource {
    target = aws_iam_role.node
    values = { arn = "arn:aws:iam::111122223333:role/guided-node" }
  }

  assert {
    condition     = aws_eks_access_entry.node.principal_arn == aws_iam_role.node.arn && aws_eks_node_group.system.node_role_arn != aws_iam_role.node.arn
    error_message = "EKS makes the entry of the node group's role itself: Karpenter's nodes have a role of their own."
  }
  assert {
    condition     = aws_iam_instance_profile.node.role == aws_iam_role.node.name && length(aws_iam_role_policy_attachment.node) == length(aws_iam_role_policy_attachment.system)
    error_message = "Karpenter's nodes carry the role that is let in, with what a node needs."
  }
  assert {
    condition     = alltrue([for addon in aws_eks_addon.this : addon.resolve_conflicts_on_create == "OVERWRITE"])
    error_message = "A new cluster has three of the add-ons already."
  }
  assert {
    condition     = toset(keys(jsondecode(aws_secretsmanager_secret_version.this.secret_string))) == toset(["api-key", "cache-url", "signing-key"])
    error_message = "The secret has what somebody reads."
  }

  assert {
    condition     = aws_elasticache_replication_group.this.transit_encryption_enabled
    error_message = "The cache speaks TLS only."
  }
  assert {
    condition     = aws_eks_cluster.this.vpc_config[0].endpoint_public_access == false
    error_message = "Nobody asked for a public API."
  }
  assert {
    condition     = output.alarms["cache-evictions"] == ["cache-evictions/guided-001", "cache-evictions/guided-002"] && length(output.alarms["interruptions-lost"]) == 4
    error_message = "Either node of the cache may be the one that forgets, and every rule may fail."
  }
  assert {
    condition     = length(aws_cloudwatch_event_rule.interruptions) == 4 && alltrue([for t in aws_cloudwatch_event_target.interruptions : t.arn == aws_sqs_queue.interruptions.arn])
    error_message = "Every kind of interruption goes to the queue."
  }
  assert {
    condition     = alltrue([for tags in module.network.private_subnet_tags : tags["karpenter.sh/discovery"] == "guided"])
    error_message = "Karpenter finds its subnets."
  }
  assert {
    condition     = strcontains(output.karpenter_manifests, "nvidia.com/gpu: 8") && strcontains(output.karpenter_manifests, "consolidateAfter: 60s")
    error_message = "Eight GPUs, gone after a minute."
  }
  assert {
    condition     = yamldecode(output.helm_values).autoscaling.maxReplicas == 8 && yamldecode(output.helm_values).fullnameOverride == aws_eks_pod_identity_association.server.service_account
    error_message = "The chart's pods carry the service account that the role is for."
  }
}

run "a_smaller_ceiling_reaches_both" {
  command = apply

  variables {
    max_gpus = 3
    settings = { compile_seconds = "5" }
  }

  assert {
    condition     = strcontains(output.karpenter_manifests, "nvidia.com/gpu: 3") && yamldecode(output.helm_values).autoscaling.maxReplicas == 3
    error_message = "One ceiling for nodes and pods."
  }
}

run "weights_from_a_bucket" {
  command = apply

  variables {
    weights_bucket = "models-of-example"
  }

  assert {
    condition     = yamldecode(output.helm_values).weights.s3.uri == "s3://models-of-example/Qwen/Qwen2.5-7B-Instruct"
    error_message = "The pods that may read the bucket are told to."
  }
}

run "an_image_without_a_date_is_refused" {
  command = plan

  variables {
    ami_alias = "al2023@latest"
  }

  expect_failures = [var.ami_alias]
}

run "an_unknown_setting_is_refused" {
  command = plan

  variables {
    settings = { compile_second = "5" }
  }

  expect_failures = [var.settings]
}

run "money_is_told_of" {
  command = apply

  module {
    source = "../modules/notify"
  }

  variables {
    name               = "guided"
    kms_key_arn        = "arn:aws:kms:eu-central-1:111122223333:key/mock"
    emails             = ["oncall@example.com"]
    monthly_budget_usd = 2000
    alarms             = {}
  }

  assert {
    condition     = toset([for n in aws_budgets_budget.this.notification : "${n.notification_type} ${n.threshold}"]) == toset(["ACTUAL 80", "FORECASTED 100"])
    error_message = "80% spent and 100% forecast."
  }
  assert {
    condition     = one(aws_budgets_budget.this.cost_filter).values[0] == "user:Project$guided"
    error_message = "The budget counts what carries the tag."
  }
  assert {
    condition     = aws_cloudformation_stack.report.parameters["TopicArn"] == aws_sns_topic.this.arn && aws_cloudformation_stack.report.parameters["MonthlyBudgetUsd"] == "2000"
    error_message = "The report goes where the alarms go."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.this["cost-report"].dimensions["FunctionName"] == "guided-cost-report"
    error_message = "A report that fails is an alarm."
  }
}

run "notices_that_reach_nobody_are_refused" {
  command = plan

  module {
    source = "../modules/notify"
  }

  variables {
    name               = "guided"
    kms_key_arn        = "arn:aws:kms:eu-central-1:111122223333:key/mock"
    emails             = []
    monthly_budget_usd = 2000
    alarms             = {}
  }

  expect_failures = [var.emails]
}
