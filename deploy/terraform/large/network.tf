module "network" {
  source = "../modules/network"

  name         = var.name
  cidr         = var.cidr
  zones        = var.availability_zones
  private_tags = { "kubernetes.io/role/internal-elb" = "1", "karpenter.sh/discovery" = var.name }
  public_tags  = { "kubernetes.io/role/elb" = "1" }
}
