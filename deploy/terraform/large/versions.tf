terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.95, < 7.0"
    }
  }
}

provider "aws" {
  region = var.region

  default_tags {
    tags = local.tags
  }
}

locals {
  # Budgets and the cost report filter by Project; Karpenter puts the same tags on the nodes that it starts.
  tags = merge(var.tags, { Project = var.name, ManagedBy = "terraform" })
}
