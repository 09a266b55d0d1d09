variable "name" {
  description = "Name of the cluster and prefix of everything else"
  type        = string
  default     = "guided"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,20}$", var.name))
    error_message = "Lower-case letters, digits and dashes, at most 21 characters: it becomes part of names that AWS limits."
  }
}

variable "region" {
  description = "Region; g5 instances have to exist there"
  type        = string
  default     = "eu-central-1"
}

variable "availability_zones" {
  description = "Zones with g5 capacity, at least two"
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]

  validation {
    condition     = length(var.availability_zones) >= 2
    error_message = "EKS and a cache with a replica need two zones."
  }
}

variable "cidr" {
  description = "Address range of the VPC; /16 gives each zone a /20 for pods"
  type        = string
  default     = "10.64.0.0/16"
}

variable "kubernetes_version" {
  description = "Version of EKS"
  type        = string
  default     = "1.34"
}

variable "api_cidrs" {
  description = "Who may reach the Kubernetes API from outside; empty: only from inside the VPC"
  type        = list(string)
  default     = []
}

variable "namespace" {
  description = "Namespace of the Helm release"
  type        = string
  default     = "ai"
}

variable "max_gpus" {
  description = "GPUs that Karpenter may run at once: the ceiling of the bill"
  type        = number
  default     = 8

  validation {
    condition     = var.max_gpus >= 1
    error_message = "At least one GPU."
  }
}

variable "instance_types" {
  description = "Instance types of the GPU nodes, one A10G each"
  type        = list(string)
  default     = ["g5.xlarge", "g5.2xlarge"]
}

variable "ami_alias" {
  description = "Image of the GPU nodes: a release of amazon-eks-ami that was published for kubernetes_version. deploy/README.md says how to find newer ones"
  type        = string
  default     = "al2023@v20251112"

  validation {
    condition     = can(regex("^al2023@v[0-9]{8}$", var.ami_alias))
    error_message = "A dated release such as al2023@v20251112: with @latest, Karpenter replaces nodes whenever AWS publishes an image."
  }
}

variable "monitoring_labels" {
  description = "Labels by which the cluster's Prometheus finds ServiceMonitors and rules; kube-prometheus-stack: the name of its release"
  type        = map(string)
  default     = { release = "prometheus" }
}

variable "model" {
  description = "Hugging Face name of the model"
  type        = string
  default     = "Qwen/Qwen2.5-7B-Instruct"
}

variable "settings" {
  description = "The gateway's settings by the names of server/settings.py"
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for name in keys(var.settings) : contains(local.known_settings, name)])
    error_message = "Unknown setting; the names are those under settings in helm/README.md."
  }
}

variable "weights_bucket" {
  description = "S3 bucket with the weights, below the model's name; the pods may read it and are told to. Empty: weights come from Hugging Face"
  type        = string
  default     = ""
}

variable "cache_node_type" {
  description = "Node type of ElastiCache"
  type        = string
  default     = "cache.t4g.small"
}

variable "monthly_budget_usd" {
  description = "Budget per month: alerts at 80% of it spent and at 100% of it forecast"
  type        = number
  default     = 2000
}

variable "alert_emails" {
  description = "Who is told of alarms, the budget and the daily cost"
  type        = list(string)
}

variable "tags" {
  description = "More tags on everything"
  type        = map(string)
  default     = {}
}

locals {
  # One list of settings for the server, the chart and this module: the chart's schema, which is generated from the server's class.
  known_settings = keys(jsondecode(file("${path.module}/../../../helm/values.schema.json")).properties.settings.properties)
}
