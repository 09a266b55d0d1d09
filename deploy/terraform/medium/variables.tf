variable "name" {
  description = "Prefix of all names, and value of the tag Project"
  type        = string
  default     = "guided-medium"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,20}$", var.name))
    error_message = "Lower-case letters, digits and dashes, at most 21 characters."
  }
}

variable "region" {
  description = "Region; the models have to be there"
  type        = string
  default     = "eu-central-1"
}

variable "image" {
  description = "The gateway's image in ECR: docker build --target bedrock"
  type        = string
}

variable "models" {
  description = "Name that clients give -> Bedrock's model id or inference profile"
  type        = map(string)
}

variable "model_arns" {
  description = "Foundation models and inference profiles that may be called"
  type        = list(string)
  default     = ["arn:aws:bedrock:*::foundation-model/*", "arn:aws:bedrock:*:*:inference-profile/*"]
}

variable "settings" {
  description = "Settings of server/bedrock/settings.py by their names"
  type        = map(string)
  default     = {}
}

variable "monthly_budget_usd" {
  description = "Budget per month: alerts at 80% of it spent and at 100% of it forecast"
  type        = number
  default     = 200
}

variable "tokens_per_hour" {
  description = "Generated tokens per hour above which an alarm is raised"
  type        = number
  default     = 200000
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

variable "availability_zones" {
  description = "At least two, for the load balancer and the cache"
  type        = list(string)
  default     = ["eu-central-1a", "eu-central-1b"]

  validation {
    condition     = length(var.availability_zones) >= 2
    error_message = "A load balancer needs two zones."
  }
}

variable "cidr" {
  description = "Address range of the VPC"
  type        = string
  default     = "10.65.0.0/16"
}

variable "certificate_arn" {
  description = "ACM certificate of the name that clients use"
  type        = string
}

variable "max_tasks" {
  description = "Most tasks at once"
  type        = number
  default     = 6
}
