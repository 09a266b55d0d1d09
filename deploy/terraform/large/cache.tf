# Compiled constraints, shared by all pods. Losing it costs compilations, never an answer: one small node and a replica, no backups.

resource "aws_security_group" "cache" {
  name        = "${var.name}-cache"
  description = "ElastiCache of ${var.name}: from the cluster's nodes only"
  vpc_id      = module.network.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "cache" {
  security_group_id            = aws_security_group.cache.id
  description                  = "TLS from the nodes"
  referenced_security_group_id = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  from_port                    = 6379
  to_port                      = 6379
  ip_protocol                  = "tcp"
}

resource "aws_elasticache_subnet_group" "this" {
  name       = var.name
  subnet_ids = module.network.private_subnets
}

resource "aws_elasticache_parameter_group" "this" {
  name   = var.name
  family = "valkey8"

  parameter {
    name  = "maxmemory-policy"
    value = "allkeys-lru"
  }
}

data "aws_secretsmanager_random_password" "this" {
  for_each = toset(["cache", "api-key", "signing-key"])

  password_length     = 48
  exclude_punctuation = true
}

resource "aws_elasticache_replication_group" "this" {
  replication_group_id       = var.name
  description                = "Compiled constraints of ${var.name}"
  engine                     = "valkey"
  engine_version             = "8.0"
  node_type                  = var.cache_node_type
  num_cache_clusters         = 2
  automatic_failover_enabled = true
  multi_az_enabled           = true
  parameter_group_name       = aws_elasticache_parameter_group.this.name
  subnet_group_name          = aws_elasticache_subnet_group.this.name
  security_group_ids         = [aws_security_group.cache.id]
  transit_encryption_enabled = true
  at_rest_encryption_enabled = true
  kms_key_id                 = module.key.arn
  auth_token                 = data.aws_secretsmanager_random_password.this["cache"].random_password
  auto_minor_version_upgrade = true

  lifecycle {
    ignore_changes = [auth_token] # the data source makes a new one at every plan
  }
}
