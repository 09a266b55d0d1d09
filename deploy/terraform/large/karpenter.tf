# Karpenter starts and stops the GPU nodes. It hears of spot interruptions two minutes ahead from the queue below.

locals {
  account     = data.aws_caller_identity.this.account_id
  ec2         = "arn:aws:ec2:${var.region}"
  cluster_tag = "kubernetes.io/cluster/${var.name}"

  interruptions = {
    spot-interruption = { source = ["aws.ec2"], detail-type = ["EC2 Spot Instance Interruption Warning"] }
    rebalance         = { source = ["aws.ec2"], detail-type = ["EC2 Instance Rebalance Recommendation"] }
    state-change      = { source = ["aws.ec2"], detail-type = ["EC2 Instance State-change Notification"] }
    health            = { source = ["aws.health"], detail-type = ["AWS Health Event"] }
  }
}

data "aws_caller_identity" "this" {}

resource "aws_sqs_queue" "interruptions" {
  name                      = "${var.name}-interruptions"
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

data "aws_iam_policy_document" "interruptions" {
  statement {
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.interruptions.arn]
    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com", "sqs.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }
  }

  statement {
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [aws_sqs_queue.interruptions.arn]
    principals {
      type        = "*"
      identifiers = ["*"]
    }
    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_sqs_queue_policy" "interruptions" {
  queue_url = aws_sqs_queue.interruptions.url
  policy    = data.aws_iam_policy_document.interruptions.json
}

resource "aws_cloudwatch_event_rule" "interruptions" {
  for_each = local.interruptions

  name          = "${var.name}-${each.key}"
  event_pattern = jsonencode(each.value)
}

resource "aws_cloudwatch_event_target" "interruptions" {
  for_each = local.interruptions

  rule = aws_cloudwatch_event_rule.interruptions[each.key].name
  arn  = aws_sqs_queue.interruptions.arn
}

data "aws_iam_policy_document" "pod_identity" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]
    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "karpenter" {
  name               = "${var.name}-karpenter"
  assume_role_policy = data.aws_iam_policy_document.pod_identity.json
}

data "aws_iam_policy_document" "karpenter" {
  statement {
    sid     = "Launch"
    actions = ["ec2:RunInstances", "ec2:CreateFleet"]
    resources = [
      "${local.ec2}::image/*", "${local.ec2}::snapshot/*", "${local.ec2}:*:security-group/*", "${local.ec2}:*:subnet/*",
    ]
  }

  statement {
    sid       = "LaunchFromOwnTemplates"
    actions   = ["ec2:RunInstances", "ec2:CreateFleet"]
    resources = ["${local.ec2}:*:launch-template/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/${local.cluster_tag}"
      values   = ["owned"]
    }
  }

  statement {
    sid     = "CreateOwnTagged"
    actions = ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"]
    resources = [for kind in ["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"] :
    "${local.ec2}:*:${kind}/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/${local.cluster_tag}"
      values   = ["owned"]
    }
  }

  statement {
    sid     = "TagWhatIsCreated"
    actions = ["ec2:CreateTags"]
    resources = [for kind in ["fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"] :
    "${local.ec2}:*:${kind}/*"]
    condition {
      test     = "StringEquals"
      variable = "ec2:CreateAction"
      values   = ["RunInstances", "CreateFleet", "CreateLaunchTemplate"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/${local.cluster_tag}"
      values   = ["owned"]
    }
  }

  statement {
    sid       = "TagOwnInstances"
    actions   = ["ec2:CreateTags"]
    resources = ["${local.ec2}:*:instance/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/${local.cluster_tag}"
      values   = ["owned"]
    }
  }

  statement {
    sid       = "DeleteOwn"
    actions   = ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"]
    resources = ["${local.ec2}:*:instance/*", "${local.ec2}:*:launch-template/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/${local.cluster_tag}"
      values   = ["owned"]
    }
  }

  statement {
    sid = "Read"
    actions = [
      "ec2:DescribeAvailabilityZones", "ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances",
      "ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes",
      "ec2:DescribeLaunchTemplates", "ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
      "pricing:GetProducts", "iam:ListInstanceProfiles",
    ]
    resources = ["*"]
  }

  statement {
    sid       = "ReadImageNames"
    actions   = ["ssm:GetParameter"]
    resources = ["arn:aws:ssm:${var.region}::parameter/aws/service/*"]
  }

  statement {
    sid       = "HearInterruptions"
    actions   = ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
    resources = [aws_sqs_queue.interruptions.arn]
  }

  statement {
    sid       = "GiveNodesTheirRole"
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.node.arn]
    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ec2.amazonaws.com"]
    }
  }

  statement {
    sid       = "ReadInstanceProfile"
    actions   = ["iam:GetInstanceProfile"]
    resources = [aws_iam_instance_profile.node.arn]
  }

  statement {
    sid       = "FindTheCluster"
    actions   = ["eks:DescribeCluster"]
    resources = [aws_eks_cluster.this.arn]
  }
}

resource "aws_iam_role_policy" "karpenter" {
  name   = "karpenter"
  role   = aws_iam_role.karpenter.id
  policy = data.aws_iam_policy_document.karpenter.json
}

resource "aws_eks_pod_identity_association" "karpenter" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = "kube-system"
  service_account = "karpenter"
  role_arn        = aws_iam_role.karpenter.arn
}

resource "aws_iam_role" "node" {
  name               = "${var.name}-node"
  assume_role_policy = data.aws_iam_policy_document.trust["node"].json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = local.node_policies

  role       = aws_iam_role.node.name
  policy_arn = "arn:aws:iam::aws:policy/${each.value}"
}

resource "aws_iam_instance_profile" "node" {
  name = "${var.name}-node"
  role = aws_iam_role.node.name
}

# Nodes that no node group started have to be let in by name.
resource "aws_eks_access_entry" "node" {
  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
}
