"""Record-only types, one row each (recorded.py).

`model` and `exists` come from botocore, `replace_on` is the official provider's `ForceNew`
(https://github.com/hashicorp/terraform-provider-aws/tree/main/internal/service).
"""

from __future__ import annotations

from twin.aws.recorded import Row

_OF_CLUSTER = ("eks", "{clusterName}")

ADDON = Row(
    "aws:eks/addon:Addon",
    model="eks.CreateAddon",
    id="{clusterName}:{addonName}",
    outputs={
        "arn": "arn:{partition}:eks:{region}:{account}:addon/{clusterName}/{addonName}",
        "createdAt": "{now}",
        "modifiedAt": "{now}",
    },
    replace_on=frozenset({"addonName", "clusterName"}),
    references={
        "clusterName": "cluster",
        "serviceAccountRoleArn": "role",
        "podIdentityAssociations.roleArn": "role:pods.eks.amazonaws.com",
    },
    exists="ResourceInUseException: Addon already exists.",
    record=(*_OF_CLUSTER, "addons", "{addonName}"),
)
ROWS = (
    Row(
        "aws:acm/certificate:Certificate",
        model="acm.RequestCertificate",
        id="{arn}",
        outputs={
            "arn": "arn:{partition}:acm:{region}:{account}:certificate/{uuid}",
            "domainValidationOptions": [
                # The record is the same for each certificate of a domain in an account:
                # https://docs.aws.amazon.com/acm/latest/userguide/dns-validation.html
                {
                    "domainName": "{domainName}",
                    "resourceRecordName": "_{account}.{domainName}.",
                    "resourceRecordType": "CNAME",
                    "resourceRecordValue": "_{account}.acm-validations.aws.",
                }
            ],
        },
        replace_on=frozenset({"domainName", "validationMethod"}),
    ),
    Row(
        "aws:acm/certificateValidation:CertificateValidation",
        model="acm.DescribeCertificate",
        id="{certificateArn}",
        replace_on=frozenset({"certificateArn", "validationRecordFqdns"}),
        references={
            "certificateArn": "aws:acm/certificate:Certificate arn",
            "validationRecordFqdns": "aws:route53/record:Record fqdn",
        },
    ),
    Row(
        "aws:budgets/budget:Budget",
        model="budgets.CreateBudget.Budget",
        id="{account}:{name}",
        outputs={"arn": "arn:{partition}:budgets::{account}:budget/{name}"},
        replace_on=frozenset({"name"}),
        name="name",
        members={"name": "BudgetName"},
        references={"notifications.subscriberSnsTopicArns": "topic"},
        exists="DuplicateRecordException",
    ),
    Row(
        "aws:cloudwatch/eventRule:EventRule",
        model="events.PutRule",
        id="{name}",
        outputs={"arn": "arn:{partition}:events:{region}:{account}:rule/{name}"},
        defaults={"eventBusName": "default", "state": "ENABLED"},
        replace_on=frozenset({"name"}),
        name="name",
    ),
    Row(
        "aws:cloudwatch/eventTarget:EventTarget",
        model="events.PutTargets",
        id="{rule}-{targetId}",
        defaults={"eventBusName": "default"},
        replace_on=frozenset({"rule", "targetId"}),
        references={"rule": "aws:cloudwatch/eventRule:EventRule name", "arn": "queue"},
    ),
    Row(
        "aws:cloudwatch/metricAlarm:MetricAlarm",
        model="cloudwatch.PutMetricAlarm",
        id="{name}",
        outputs={"arn": "arn:{partition}:cloudwatch:{region}:{account}:alarm:{name}"},
        defaults={"actionsEnabled": True, "treatMissingData": "missing"},
        replace_on=frozenset({"name"}),
        name="name",
        members={"name": "AlarmName"},
        references={"alarmActions": "topic", "insufficientDataActions": "topic", "okActions": "topic"},
    ),
    Row(
        "aws:codebuild/project:Project",
        model="codebuild.CreateProject",
        id="{arn}",
        outputs={"arn": "arn:{partition}:codebuild:{region}:{account}:project/{name}"},
        replace_on=frozenset({"name"}),
        name="name",
        members={"buildTimeout": "timeoutInMinutes"},
        references={
            "serviceRole": "role:codebuild.amazonaws.com",
            "vpcConfig.vpcId": "vpc",
            "vpcConfig.subnets": "subnet",
            "vpcConfig.securityGroupIds": "security-group",
        },
        exists="ResourceAlreadyExistsException",
    ),
    Row(
        "aws:codebuild/webhook:Webhook",
        model="codebuild.CreateWebhook",
        id="{projectName}",
        outputs={"payloadUrl": "https://codebuild.{region}.amazonaws.com/webhooks", "url": "hooks/{hex8}"},
        replace_on=frozenset({"projectName"}),
        references={"projectName": "aws:codebuild/project:Project name"},
        exists="ResourceAlreadyExistsException",
    ),
    Row(
        "aws:costexplorer/anomalyMonitor:AnomalyMonitor",
        model="ce.CreateAnomalyMonitor.AnomalyMonitor",
        id="{arn}",
        outputs={"arn": "arn:{partition}:ce::{account}:anomalymonitor/{uuid}"},
        replace_on=frozenset({"monitorSpecification", "monitorType"}),
        name="name",
        members={"name": "MonitorName"},
    ),
    Row(
        "aws:costexplorer/anomalySubscription:AnomalySubscription",
        model="ce.CreateAnomalySubscription.AnomalySubscription",
        id="{arn}",
        outputs={"arn": "arn:{partition}:ce::{account}:anomalysubscription/{uuid}"},
        replace_on=frozenset({"name"}),
        name="name",
        members={"name": "SubscriptionName", "monitorArnLists": "MonitorArnList"},
        references={
            "monitorArnLists": "aws:costexplorer/anomalyMonitor:AnomalyMonitor arn",
            "subscribers.address": "topic",
        },
    ),
    Row(
        "aws:ec2/flowLog:FlowLog",
        model="ec2.CreateFlowLogs",
        id="fl-{hex17}",
        outputs={"arn": "arn:{partition}:ec2:{region}:{account}:vpc-flow-log/fl-{hex17}"},
        defaults={"logDestinationType": "cloud-watch-logs", "maxAggregationInterval": 600},
        replace_on=frozenset(
            {"iamRoleArn", "logDestination", "logDestinationType", "maxAggregationInterval", "trafficType", "vpcId"}
        ),
        references={"iamRoleArn": "role:vpc-flow-logs.amazonaws.com", "logDestination": "log group", "vpcId": "vpc"},
    ),
    Row(
        "aws:eks/accessEntry:AccessEntry",
        model="eks.CreateAccessEntry",
        id="{clusterName}:{principalArn}",
        outputs={"accessEntryArn": "arn:{partition}:eks:{region}:{account}:access-entry/{clusterName}/{uuid}"},
        defaults={"type": "STANDARD"},
        replace_on=frozenset({"clusterName", "principalArn", "type"}),
        references={"clusterName": "cluster with entries", "principalArn": "principal"},
        exists="ResourceInUseException: The specified access entry resource is already in use on this cluster.",
        record=(*_OF_CLUSTER, "access-entries", "{principalArn}"),
        parts=(*_OF_CLUSTER, "access-policies", "{principalArn}"),
    ),
    Row(
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        model="eks.AssociateAccessPolicy",
        id="{clusterName}#{principalArn}#{policyArn}",
        replace_on=frozenset({"accessScope", "clusterName", "policyArn", "principalArn"}),
        delete_before_replace=True,
        references={"clusterName": "cluster with entries", "principalArn": "access entry", "policyArn": "access policy"},
        record=(*_OF_CLUSTER, "access-policies", "{principalArn}", "{policyArn}"),
    ),
    Row(
        "aws:eks/podIdentityAssociation:PodIdentityAssociation",
        model="eks.CreatePodIdentityAssociation",
        id="{clusterName}:{namespace}:{serviceAccount}",
        outputs={
            "associationArn": "arn:{partition}:eks:{region}:{account}:podidentityassociation/{clusterName}/a-{hex17}",
            "associationId": "a-{hex17}",
        },
        replace_on=frozenset({"clusterName", "namespace", "serviceAccount"}),
        references={"clusterName": "cluster", "roleArn": "role:pods.eks.amazonaws.com"},
        exists="ResourceInUseException: Association already exists.",
        record=(*_OF_CLUSTER, "pod-identities", "{namespace}", "{serviceAccount}"),
    ),
    Row(
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        model="fsx.CreateDataRepositoryAssociation",
        id="dra-{hex17}",
        outputs={
            "arn": "arn:{partition}:fsx:{region}:{account}:association/{fileSystemId}/dra-{hex17}",
            "associationId": "dra-{hex17}",
        },
        defaults={
            "batchImportMetaDataOnCreate": False,
            "deleteDataInFilesystem": False,
            "importedFileChunkSize": 1024,
        },
        replace_on=frozenset({"batchImportMetaDataOnCreate", "dataRepositoryPath", "fileSystemId", "fileSystemPath"}),
        delete_before_replace=True,
        references={"fileSystemId": "aws:fsx/lustreFileSystem:LustreFileSystem id", "dataRepositoryPath": "bucket"},
        record=("fsx", "associations", "{fileSystemId}", "{associationId}"),
    ),
    Row(
        "aws:fsx/lustreFileSystem:LustreFileSystem",
        model="fsx.CreateFileSystem",
        id="fs-{hex17}",
        outputs={
            "arn": "arn:{partition}:fsx:{region}:{account}:file-system/fs-{hex17}",
            "dnsName": "fs-{hex17}.fsx.{region}.amazonaws.com",
            "mountName": "{hex8}",
        },
        defaults={"automaticBackupRetentionDays": 0, "dataCompressionType": "NONE", "storageType": "SSD"},
        replace_on=frozenset(
            {"deploymentType", "fileSystemTypeVersion", "kmsKeyId", "securityGroupIds", "storageType", "subnetIds"}
        ),
        unordered=frozenset({"securityGroupIds"}),
        references={"kmsKeyId": "key", "securityGroupIds": "security-group", "subnetIds": "subnet"},
        parts=("fsx", "associations", "{id}"),
        grows="storageCapacity",
    ),
    Row(
        "aws:route53/record:Record",
        model="route53.ChangeResourceRecordSets.ChangeBatch.Changes.ResourceRecordSet",
        id="{zoneId}_{name}_{type}",
        outputs={"fqdn": "{name}"},
        replace_on=frozenset({"name", "type", "zoneId"}),
        references={"zoneId": "hosted zone"},
    ),
    Row(
        "aws:sqs/redriveAllowPolicy:RedriveAllowPolicy",
        model="sqs.SetQueueAttributes",
        id="{queueUrl}",
        replace_on=frozenset({"queueUrl"}),
        references={"queueUrl": "queue URL"},
    ),
)
