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
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:111122223333:key/mock" }
  }
  mock_resource "aws_secretsmanager_secret" {
    defaults = { arn = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:mock", id = "arn:aws:secretsmanager:eu-central-1:111122223333:secret:mock" }
  }
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-central-1:111122223333:log-group:mock" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-central-1:111122223333:mock" }
  }
  mock_resource "aws_dynamodb_table" {
    defaults = { arn = "arn:aws:dynamodb:eu-central-1:111122223333:table/mock" }
  }
  mock_resource "aws_lambda_function_url" {
    defaults = { function_url = "https://abc.lambda-url.eu-central-1.on.aws/" }
  }
  mock_resource "aws_lb" {
    defaults = { arn = "arn:aws:elasticloadbalancing:eu-central-1:111122223333:loadbalancer/app/mock/1", dns_name = "mock.eu-central-1.elb.amazonaws.com", arn_suffix = "app/mock/1" }
  }
  mock_resource "aws_lb_target_group" {
    defaults = { arn = "arn:aws:elasticloadbalancing:eu-central-1:111122223333:targetgroup/mock/1", arn_suffix = "targetgroup/mock/1" }
  }
  mock_resource "aws_lb_listener" {
    defaults = { arn = "arn:aws:elasticloadbalancing:eu-central-1:111122223333:listener/app/mock/1/2" }
  }
  mock_resource "aws_ecs_cluster" {
    defaults = { arn = "arn:aws:ecs:eu-central-1:111122223333:cluster/mock" }
  }
  mock_resource "aws_ecs_task_definition" {
    defaults = { arn = "arn:aws:ecs:eu-central-1:111122223333:task-definition/mock:1" }
  }
  mock_resource "aws_elasticache_replication_group" {
    defaults = { primary_endpoint_address = "mock.cache.amazonaws.com" }
  }
}

variables {
  certificate_arn = "arn:aws:acm:eu-central-1:111122223333:certificate/mock"
  image           = "111122223333.dkr.ecr.eu-central-1.amazonaws.com/guided-bedrock:0.1.0"
  models          = { haiku = "eu.anthropic.claude-haiku-4-5-20251001-v1:0" }
  alert_emails    = ["oncall@example.com"]
}

run "defaults" {
  command = apply

  assert {
    condition     = aws_lb_listener.https.ssl_policy == "ELBSecurityPolicy-TLS13-1-2-2021-06" && aws_lb_listener.http.default_action[0].type == "redirect"
    error_message = "TLS, and whoever comes without is sent there."
  }
  assert {
    condition     = aws_elasticache_replication_group.this.transit_encryption_enabled
    error_message = "The cache speaks TLS only."
  }
  assert {
    condition     = jsondecode(aws_ecs_task_definition.this.container_definitions)[0].user == "10001:10001"
    error_message = "Not as root."
  }
  assert {
    condition     = !strcontains(aws_ecs_task_definition.this.container_definitions, "not-a-real-password")
    error_message = "A task definition can be read by many: the cache's password is in a secret."
  }
  assert {
    condition     = [for s in jsondecode(aws_ecs_task_definition.this.container_definitions)[0].secrets : s.name] == ["GUIDED_BEDROCK_ANSWER_CACHE"]
    error_message = "The address of the cache comes from a secret."
  }
  assert {
    condition = alltrue([
      for seconds in [aws_lb.this.idle_timeout, aws_lb_target_group.this.deregistration_delay, jsondecode(aws_ecs_task_definition.this.container_definitions)[0].stopTimeout] :
      tonumber(output.environment["GUIDED_BEDROCK_REQUEST_SECONDS"]) < tonumber(seconds)
    ])
    error_message = "The gateway answers, if only that there is no answer, before the balancer or a new version cuts it off."
  }
  assert {
    condition     = aws_ecs_service.this.desired_count >= 2
    error_message = "One task per zone at least."
  }
}
