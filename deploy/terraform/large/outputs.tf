output "karpenter_manifests" {
  description = "terraform output -raw karpenter_manifests | kubectl apply -f -"
  value = templatefile("${path.module}/manifests/karpenter.yaml.tftpl", {
    name           = var.name
    profile        = aws_iam_instance_profile.node.name
    instance_types = var.instance_types
    max_gpus       = var.max_gpus
    ami_alias      = var.ami_alias
    tags           = local.tags
  })
}

output "karpenter_values" {
  description = "Values of Karpenter's own chart: terraform output -raw karpenter_values > karpenter.yaml"
  value = yamlencode({
    settings       = { clusterName = aws_eks_cluster.this.name, interruptionQueue = aws_sqs_queue.interruptions.name }
    serviceAccount = { name = "karpenter" }
  })
}

output "helm_values" {
  description = "Values of this project's chart: terraform output -raw helm_values > values.yaml"
  value = yamlencode({
    fullnameOverride = var.name
    model            = var.weights_bucket == "" ? { name = var.model, servedName = "" } : { name = "/weights/model", servedName = var.model }
    weights = {
      source = var.weights_bucket == "" ? "emptyDir" : "s3"
      s3     = { uri = var.weights_bucket == "" ? "" : "s3://${var.weights_bucket}/${var.model}" }
    }
    settings = { for name, text in var.settings : name => try(tonumber(text), tobool(text), text) }
    auth     = { existingSecret = "${var.name}-server", key = "api-key" }
    indexCache = { redis = {
      existingSecret = "${var.name}-server"
      urlKey         = "cache-url"
      signingKey     = "signing-key"
      to             = [{ ipBlock = { cidr = var.cidr } }]
    } }
    autoscaling    = { mode = "keda", maxReplicas = var.max_gpus }
    router         = { enabled = true, maxServers = var.max_gpus * 2 }
    serviceAccount = { name = var.name }
    nodeSelector   = { "karpenter.sh/nodepool" = "gpu-spot" }
    # What KEDA asks for is scraped by this ServiceMonitor.
    monitoring = {
      serviceMonitor = { enabled = true, labels = var.monitoring_labels }
      rules          = { enabled = true, labels = var.monitoring_labels }
      dashboards     = { enabled = true }
    }
  })
}

output "secret_arn" {
  description = "The secret with API key and cache URL"
  value       = aws_secretsmanager_secret.this.arn
}

output "cluster_name" {
  description = "aws eks update-kubeconfig --name"
  value       = aws_eks_cluster.this.name
}

output "alarms" {
  description = "Heading of deploy/README.md -> the alarms that it is about"
  value       = module.notify.alarms
}
