# Answers to requests that leave nothing to chance. Losing it costs money, never an answer.

data "aws_secretsmanager_random_password" "cache" {
  password_length     = 48
  exclude_punctuation = true
}

resource "aws_security_group" "cache" {
  name        = "${var.name}-cache"
  description = "ElastiCache of ${var.name}"
  vpc_id      = module.network.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "cache" {
  security_group_id            = aws_security_group.cache.id
  description                  = "TLS from the tasks"
  referenced_security_group_id = aws_security_group.service.id
  from_port                    = 6379
  to_port                      = 6379
  ip_protocol                  = "tcp"
}

resource "aws_elasticache_subnet_group" "this" {
  name       = var.name
  subnet_ids = module.network.private_subnets
}

resource "aws_elasticache_replication_group" "this" {
  replication_group_id       = var.name
  description                = "Answers of ${var.name}"
  engine                     = "valkey"
  engine_version             = "8.0"
  node_type                  = "cache.t4g.micro"
  num_cache_clusters         = 2
  automatic_failover_enabled = true
  multi_az_enabled           = true
  subnet_group_name          = aws_elasticache_subnet_group.this.name
  security_group_ids         = [aws_security_group.cache.id]
  transit_encryption_enabled = true
  at_rest_encryption_enabled = true
  kms_key_id                 = module.gateway.kms_key_arn
  auth_token                 = data.aws_secretsmanager_random_password.cache.random_password

  lifecycle {
    ignore_changes = [auth_token] # the data source makes a new one at every plan
  }
}

resource "aws_secretsmanager_secret" "cache" {
  name        = "${var.name}/cache-url"
  description = "Address of the cache, with its password"
  kms_key_id  = module.gateway.kms_key_arn
}

resource "aws_secretsmanager_secret_version" "cache" {
  secret_id     = aws_secretsmanager_secret.cache.id
  secret_string = "rediss://:${data.aws_secretsmanager_random_password.cache.random_password}@${aws_elasticache_replication_group.this.primary_endpoint_address}:6379/0"

  lifecycle {
    ignore_changes = [secret_string]
  }
}
