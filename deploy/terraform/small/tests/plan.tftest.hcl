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
  mock_resource "aws_lambda_function" {
    defaults = { arn = "arn:aws:lambda:eu-central-1:111122223333:function:mock" }
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
  image        = "111122223333.dkr.ecr.eu-central-1.amazonaws.com/guided-bedrock:0.1.0"
  models       = { haiku = "eu.anthropic.claude-haiku-4-5-20251001-v1:0" }
  alert_emails = ["oncall@example.com"]
}

run "defaults" {
  command = apply

  assert {
    condition     = output.environment["GUIDED_BEDROCK_ANSWER_CACHE"] == "dynamodb:guided-small-answers"
    error_message = "The function uses the table."
  }
  assert {
    condition     = output.base_url == "https://abc.lambda-url.eu-central-1.on.aws/v1"
    error_message = "A base_url for OpenAI's clients."
  }
  assert {
    condition     = aws_lambda_function.this.reserved_concurrent_executions == 10
    error_message = "There is a ceiling."
  }
  assert {
    condition     = tonumber(output.environment["GUIDED_BEDROCK_REQUEST_SECONDS"]) < aws_lambda_function.this.timeout
    error_message = "The gateway answers, if only that there is no answer, before the function is ended."
  }
  assert {
    condition = (
      aws_lambda_permission.url.action == "lambda:InvokeFunctionUrl" &&
      jsondecode(aws_cloudformation_stack.url.template_body).Resources.InvokeThroughUrl.Properties == {
        Action                = "lambda:InvokeFunction"
        FunctionName          = "guided-small"
        Principal             = "*"
        InvokedViaFunctionUrl = true
      }
    )
    error_message = "A URL without both permissions answers 403 to everybody."
  }
  assert {
    condition     = one(aws_dynamodb_table.answers.ttl).attribute_name == "expires"
    error_message = "Answers expire."
  }
}

run "a_request_that_the_function_would_not_outlive_is_refused" {
  command = plan

  module {
    source = "../modules/gateway"
  }

  variables {
    name             = "guided-test"
    model_arns       = ["arn:aws:bedrock:*::foundation-model/*"]
    platform_seconds = 120
    settings         = { request_seconds = "120" }
  }

  expect_failures = [var.settings]
}

run "an_unknown_setting_is_refused" {
  command = plan

  module {
    source = "../modules/gateway"
  }

  variables {
    name             = "guided-test"
    model_arns       = ["arn:aws:bedrock:*::foundation-model/*"]
    platform_seconds = 120
    settings         = { max_token = "5" }
  }

  expect_failures = [var.settings]
}
