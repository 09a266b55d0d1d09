# What the pods are told and nobody else should read, in one secret; deploy/README.md shows how it gets into the namespace.

resource "aws_secretsmanager_secret" "this" {
  name        = "${var.name}/server"
  description = "API key, cache URL and signing key of ${var.name}"
  kms_key_id  = module.key.arn
}

resource "aws_secretsmanager_secret_version" "this" {
  secret_id = aws_secretsmanager_secret.this.id
  secret_string = jsonencode({
    "api-key"     = data.aws_secretsmanager_random_password.this["api-key"].random_password
    "signing-key" = data.aws_secretsmanager_random_password.this["signing-key"].random_password
    "cache-url"   = "rediss://:${data.aws_secretsmanager_random_password.this["cache"].random_password}@${aws_elasticache_replication_group.this.primary_endpoint_address}:6379/0"
  })

  lifecycle {
    ignore_changes = [secret_string] # written once; rotated by hand or by a rotation function, not by a plan
  }
}

resource "aws_iam_role" "server" {
  name               = "${var.name}-server"
  assume_role_policy = data.aws_iam_policy_document.pod_identity.json
}

# The pods get their secret from Kubernetes and need no rights in AWS but for their weights.
data "aws_iam_policy_document" "weights" {
  count = var.weights_bucket == "" ? 0 : 1

  statement {
    sid       = "Weights"
    actions   = ["s3:GetObject", "s3:ListBucket"]
    resources = ["arn:aws:s3:::${var.weights_bucket}", "arn:aws:s3:::${var.weights_bucket}/*"]
  }
}

resource "aws_iam_role_policy" "weights" {
  count = length(data.aws_iam_policy_document.weights)

  name   = "weights"
  role   = aws_iam_role.server.id
  policy = data.aws_iam_policy_document.weights[0].json
}

resource "aws_eks_pod_identity_association" "server" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = var.namespace
  service_account = var.name
  role_arn        = aws_iam_role.server.arn
}
