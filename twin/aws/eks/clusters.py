"""EKS clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from spec.versions import KUBERNETES_SUPPORT
from twin.aws.base import late, records, tags
from twin.aws.base.clients import Clients
from twin.aws.base.errors import HandlerError, Problem
from twin.aws.base.handler import UNKNOWN, Difference, Handler, Values, known
from twin.aws.base.lookup import gone_is_fine
from twin.aws.ec2 import api, network
from twin.aws.eks import access, lookup
from twin.aws.iam import trust
from twin.aws.kms import deployer, keys

# moto's DescribeCluster lacks these; the twin's record of the cluster holds them.
_RECORDED = ("accessConfig", "bootstrapSelfManagedAddons", "deletionProtection", "upgradePolicy", "version")


class Cluster(Handler):
    token = "aws:eks/cluster:Cluster"
    inputs = frozenset(
        {
            "accessConfig",
            "bootstrapSelfManagedAddons",
            "deletionProtection",
            "enabledClusterLogTypes",
            "encryptionConfig",
            "kubernetesNetworkConfig",
            "name",
            "roleArn",
            "tags",
            "upgradePolicy",
            "version",
            "vpcConfig",
        }
    )
    defaults: ClassVar[Values] = {"bootstrapSelfManagedAddons": True, "deletionProtection": False}
    computed = frozenset({"arn", "certificateAuthority", "createdAt", "endpoint", "identities", "platformVersion", "status"})
    partly_computed = frozenset({"vpcConfig"})
    replace_on = frozenset(
        {
            "accessConfig.bootstrapClusterCreatorAdminPermissions",
            "bootstrapSelfManagedAddons",
            "kubernetesNetworkConfig.ipFamily",
            "kubernetesNetworkConfig.serviceIpv4Cidr",
            "name",
            "roleArn",
        }
    )
    unordered = frozenset(
        {"enabledClusterLogTypes", "vpcConfig.publicAccessCidrs", "vpcConfig.securityGroupIds", "vpcConfig.subnetIds"}
    )
    name_input = "name"

    def diff(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
        """Compare as for every type, but replace a cluster that loses its encryption."""
        found = super().diff(old, new)
        if not (old.get("encryptionConfig") and new.get("encryptionConfig") is None):
            return found
        return Difference(found.changed, (*found.replaces, "encryptionConfig"), self._must_delete_first(old, new))

    def rules(self, inputs: Values) -> Iterable[Problem]:
        version = known(inputs, "version")
        if version is not None and version not in KUBERNETES_SUPPORT:
            yield Problem("version", f"EKS has no Kubernetes {version}; it has {', '.join(KUBERNETES_SUPPORT)}")

    def preview(self, inputs: Values) -> Values:
        outputs = super().preview(inputs)
        if isinstance(inputs["vpcConfig"], dict):
            own = {"clusterSecurityGroupId": UNKNOWN, "vpcId": UNKNOWN}
            outputs["vpcConfig"] = {**inputs["vpcConfig"], **own}
        return outputs

    def preview_update(self, old: Values, new: Values) -> Values:
        _check_version_step(new["name"], old["version"], new["version"])
        outputs = super().preview_update(old, new)
        if isinstance(new["vpcConfig"], dict):
            own = {key: old["vpcConfig"][key] for key in ("clusterSecurityGroupId", "vpcId")}
            outputs["vpcConfig"] = {**new["vpcConfig"], **own}
        return outputs

    def create(self, clients: Clients, inputs: Values) -> tuple[str, Values]:
        name = inputs["name"]
        if lookup.cluster(clients, name) is not None:
            raise HandlerError(f"EKS cluster {name} already exists")
        vpc_id = _check_references(clients, inputs)
        _grant(clients, inputs)
        # EKS takes minutes. Meanwhile IAM propagates roles that are as new as the cluster to its other services.
        late.wait(clients, "iam", datetime.now(UTC))
        cluster = clients("eks").create_cluster(
            name=name,
            version=inputs["version"],
            roleArn=inputs["roleArn"],
            resourcesVpcConfig=_vpc_request(inputs["vpcConfig"]),
            logging=_logging_request(inputs),
            tags=inputs.get("tags", {}),
            **_optional_requests(inputs),
        )["cluster"]
        group = _create_security_group(clients, name, vpc_id)
        self._record(clients, inputs, {"clusterSecurityGroupId": group, "vpcId": vpc_id})
        mode = inputs.get("accessConfig") or {}
        if mode.get("authenticationMode") in ("API", "API_AND_CONFIG_MAP") and mode.get(
            "bootstrapClusterCreatorAdminPermissions", True
        ):
            access.let_creator_in(clients, name)
        return name, self._outputs(clients, inputs, cluster)

    def read(self, clients: Clients, id: str, state: Values) -> Values | None:
        cluster = lookup.cluster(clients, id)
        if cluster is None:
            return None
        record = lookup.record(clients, id)
        vpc = cluster["resourcesVpcConfig"]
        seen_vpc = {
            key: vpc[key] for key in state["vpcConfig"] if key in vpc and key not in ("vpcId", "clusterSecurityGroupId")
        }
        return {
            **state,
            **{key: record[key] for key in _RECORDED if key in record},
            **self._computed(cluster),
            **_observed_log_types(state, cluster),
            **tags.observed(state, cluster.get("tags", {})),
            "vpcConfig": {**state["vpcConfig"], **seen_vpc},
        }

    def update(self, clients: Clients, id: str, old: Values, new: Values) -> Values:
        eks = clients("eks")
        _check_references(clients, new)
        if new["version"] != old["version"]:
            _check_version_step(id, old["version"], new["version"])
        declared_before = {key: old["vpcConfig"].get(key) for key in new["vpcConfig"]}
        if declared_before != new["vpcConfig"]:
            eks.update_cluster_config(name=id, resourcesVpcConfig=_vpc_request(new["vpcConfig"]))
        if old.get("enabledClusterLogTypes") != new.get("enabledClusterLogTypes"):
            eks.update_cluster_config(name=id, logging=_logging_request(new))
        lookup.retag(clients, old["arn"], old, new)
        record = lookup.record(clients, id)
        self._record(clients, new, {key: record[key] for key in ("clusterSecurityGroupId", "vpcId")})
        return self._outputs(clients, new, lookup.require_cluster(clients, id, "update"))

    def delete(self, clients: Clients, id: str, state: Values) -> None:
        if lookup.cluster(clients, id) is not None:
            if lookup.record(clients, id).get("deletionProtection"):
                raise HandlerError(
                    f"EKS cluster {id} has deletion protection; set deletionProtection to false and apply that first"
                )
            groups = clients("eks").list_nodegroups(clusterName=id)["nodegroups"]
            if groups:
                raise HandlerError(f"EKS cluster {id} still has node groups: {', '.join(groups)}")
            clients("eks").delete_cluster(name=id)
        group = lookup.record(clients, id).get("clusterSecurityGroupId")
        if group:
            with gone_is_fine():
                clients("ec2").delete_security_group(GroupId=group)
        for name in records.below(clients, records.path("eks", id)):
            records.delete(clients, name)

    def _outputs(self, clients: Clients, inputs: Values, cluster: dict[str, Any]) -> Values:
        record = lookup.record(clients, inputs["name"])
        own = {key: record[key] for key in ("clusterSecurityGroupId", "vpcId")}
        return self.outputs({**inputs, "vpcConfig": {**inputs["vpcConfig"], **own}}, self._computed(cluster))

    @staticmethod
    def _computed(cluster: dict[str, Any]) -> Values:
        return {
            "arn": cluster["arn"],
            "certificateAuthority": cluster["certificateAuthority"],
            "createdAt": cluster["createdAt"].isoformat(),
            "endpoint": cluster["endpoint"],
            "identities": [{"oidcs": [{"issuer": cluster["identity"]["oidc"]["issuer"]}]}],
            "platformVersion": cluster["platformVersion"],
            "status": cluster["status"],
        }

    @staticmethod
    def _record(clients: Clients, inputs: Values, own: Values) -> None:
        kept = {key: inputs[key] for key in _RECORDED if key in inputs}
        records.put(clients, lookup.record_name(inputs["name"]), {**kept, **own})


def _check_references(clients: Clients, inputs: Values) -> str:
    """Check requirements that EKS checks and moto does not; return the VPC's id.

    https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html and
    https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html.
    """
    where = f"EKS cluster {inputs['name']}"
    role = trust.require_role(clients, inputs["roleArn"], where, service="eks.amazonaws.com")
    lookup.require_attached(clients, role["RoleName"], ("AmazonEKSClusterPolicy",), where)
    config = inputs["vpcConfig"]
    subnets = api.require_all(clients, "subnet", config["subnetIds"], where)
    zones = sorted({subnet["AvailabilityZone"] for subnet in subnets})
    if len(zones) < 2:
        raise HandlerError(f"{where}: subnets in at least two availability zones are required, these are in {zones}")
    vpc_id = str(subnets[0]["VpcId"])
    for item in (*subnets, *api.require_all(clients, "security-group", config.get("securityGroupIds", []), where)):
        if item["VpcId"] != vpc_id:
            raise HandlerError(f"{where}: {item.get('GroupId') or item['SubnetId']} is in {item['VpcId']}, not in {vpc_id}")
    if config.get("endpointPrivateAccess"):
        network.require_dns(clients, vpc_id, where)
    if "encryptionConfig" in inputs:
        keys.require_key(clients, inputs["encryptionConfig"]["provider"]["keyArn"], where)
    return vpc_id


def _create_security_group(clients: Clients, cluster: str, vpc_id: str) -> str:
    """Create the security group of a cluster and its managed nodes, as EKS does and moto does not; return its id."""
    ec2 = clients("ec2")
    tags = {"Name": f"eks-cluster-sg-{cluster}", f"kubernetes.io/cluster/{cluster}": "owned"}
    id: str = ec2.create_security_group(
        GroupName=f"eks-cluster-sg-{cluster}",
        Description="EKS created security group applied to ENI that is attached to EKS Control Plane master nodes",
        VpcId=vpc_id,
    )["GroupId"]
    ec2.create_tags(Resources=[id], Tags=[{"Key": key, "Value": value} for key, value in tags.items()])
    ec2.authorize_security_group_ingress(
        GroupId=id, IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": id}]}]
    )
    return id


def _grant(clients: Clients, inputs: Values) -> None:
    """Create EKS's grant on the key, with the permissions of the cluster's creator."""
    if "encryptionConfig" in inputs:
        arn = inputs["encryptionConfig"]["provider"]["keyArn"]
        key = keys.require_key(clients, arn, f"EKS cluster {inputs['name']}")
        deployer.require(clients, "CreateGrant", key, service=f"eks.{clients.region}.amazonaws.com")


def _observed_log_types(state: Values, cluster: dict[str, Any]) -> Values:
    """Return the log types in the declared order if they match; absent if none is declared and none is enabled."""
    declared = state.get("enabledClusterLogTypes")
    enabled = [item for item in cluster.get("logging", {}).get("clusterLogging", []) if item["enabled"]]
    found = sorted(kind for item in enabled for kind in item["types"])
    if declared is None and not found:
        return {}
    return {"enabledClusterLogTypes": declared if declared is not None and sorted(declared) == found else found}


def _check_version_step(name: str, before: str, after: str) -> None:
    old, new = int(before.split(".")[1]), int(after.split(".")[1])
    if new < old:
        raise HandlerError(f"EKS cluster {name}: Kubernetes cannot go back from {before} to {after}")
    if new > old + 1:
        raise HandlerError(f"EKS cluster {name}: one minor version at a time; {before} can go to 1.{old + 1}, not {after}")


def _vpc_request(config: Values) -> Values:
    return {key: value for key, value in config.items() if value is not None}


def _logging_request(inputs: Values) -> Values:
    enabled = list(inputs.get("enabledClusterLogTypes", []))
    return {"clusterLogging": [{"types": enabled, "enabled": True}] if enabled else []}


def _optional_requests(inputs: Values) -> Values:
    """Return optional parameters. moto drops some of them, but the strict hook checks their values."""
    request: Values = {
        key: inputs[key]
        for key in ("accessConfig", "bootstrapSelfManagedAddons", "deletionProtection", "upgradePolicy")
        if key in inputs
    }
    if "kubernetesNetworkConfig" in inputs:
        request["kubernetesNetworkConfig"] = inputs["kubernetesNetworkConfig"]
    if "encryptionConfig" in inputs:
        request["encryptionConfig"] = [inputs["encryptionConfig"]]
    return request
