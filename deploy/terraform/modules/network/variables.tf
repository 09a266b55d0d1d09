terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "name" {
  description = "Prefix of the names"
  type        = string
}

variable "cidr" {
  description = "Address range of the VPC; each zone gets a sixteenth of it for its private subnet"
  type        = string
}

variable "zones" {
  description = "Availability zones"
  type        = list(string)
}

variable "private_tags" {
  description = "More tags on the private subnets"
  type        = map(string)
  default     = {}
}

variable "public_tags" {
  description = "More tags on the public subnets"
  type        = map(string)
  default     = {}
}

output "vpc_id" {
  description = "The VPC"
  value       = aws_vpc.this.id
}

output "private_subnets" {
  description = "One per zone"
  value       = [for subnet in aws_subnet.private : subnet.id]
}

output "public_subnets" {
  description = "One per zone"
  value       = [for subnet in aws_subnet.public : subnet.id]
}

output "private_subnet_tags" {
  description = "Tags of each private subnet, for tests"
  value       = [for subnet in aws_subnet.private : subnet.tags]
}

output "nat_gateway_id" {
  description = "The way to the Internet of what is in private subnets"
  value       = aws_nat_gateway.this.id
}
