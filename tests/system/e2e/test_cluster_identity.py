"""Principals of IAM at the API server of a twin that is up: the kubeconfigs of the AWS CLI, and the permissions of each role.

The expectations are AWS's tables (https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html) and what
docs/github.md says about the roles. tests/twin/aws/test_cluster_access.py has the tokens that are refused, one by one.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as kubernetes_client
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import portforward

from infra.aws.cluster import access_entries
from spec.names import TRITON_NAMESPACE
from spec.settings.loader import load
from tests.infra.access import stack
from tests.system.e2e.account import REGION, client
from tests.system.e2e.conftest import Twin
from tests.system.e2e.test_up import HTTP_PORT
from twin.aws import table
from twin.aws.base.clients import Clients

CLUSTER = "triton-local"
ADMIN = "arn:aws:iam::123456789012:role/platform-admin"
