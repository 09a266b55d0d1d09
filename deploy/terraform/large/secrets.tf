# What the pods are told and nobody else should read, in one secret; deploy/README.md shows how it gets into the namespace.

resource "aws_secretsmanager_secret" "this" {
  name        = "${var.name}/server"
  description = "API key, cache URL and model settings of ${var.name}"
  kms_key_id  = aws_kms_key.cluster.arn
}

resource "aws_secretsmanager_secret_version" "this" {
  secret_id = aws_secretsmanager_secret.this.id
  secret_string = jsonencode({
    "api-key"     = data.aws_secretsmanager_random_password.this["api-key"].random_password
    "signing-key" = data.aws_secretsmanager_random_password.this["signing-key"].random_password
    "cache-url"   = "rediss://:${data.aws_secretsmanager_random_password.this["cache"].random_password}@${aws_elasticache_replication_group.this.primary_endpoint_address}:6379/0"
    "model"       = var.model
    "settings"    = var.settings
  })

  lifecycle {
    ignore_changes = [secret_string] # written once; rotated by hand or by a rotation function, not by a plan
  }
}

resource "aws_iam_role" "server" {
  name               = "${var.name}-server"
  assume_role_policy = data.aws_iam_policy_document.pod_identity.json
}

data "aws_iam_policy_document" "server" {
  statement {
    sid       = "OwnSecret"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [aws_secretsmanager_secret.this.arn]
  }

  statement {
    sid       = "DecryptIt"
    actions   = ["kms:Decrypt"]
    resources = [aws_kms_key.cluster.arn]
  }

  dynamic "statement" {
    for_each = var.weights_bucket == "" ? [] : [var.weights_bucket]
    content {
      sid       = "Weights"
      actions   = ["s3:GetObject", "s3:ListBucket"]
      resources = ["arn:aws:s3:::${statement.value}", "arn:aws:s3:::${statement.value}/*"]
    }
  }
}

resource "aws_iam_role_policy" "server" {
  name   = "server"
  role   = aws_iam_role.server.id
  policy = data.aws_iam_policy_document.server.json
}

resource "aws_eks_pod_identity_association" "server" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = var.namespace
  service_account = var.name
  role_arn        = aws_iam_role.server.arn
}
