"""The report of the day, on answers of the cost explorer in the shape that botocore knows, and the stack that sends it."""

from __future__ import annotations

import re
import sys
from datetime import date

import boto3
import pytest
import yaml
from botocore.stub import Stubber

from tests.deploy.tools import ROOT, check

sys.path.insert(0, str(ROOT / "deploy" / "monitoring" / "cost"))
import cost_report

COST = ROOT / "deploy" / "monitoring" / "cost"


def answer(**services: str) -> dict[str, object]:
    groups = [{"Keys": [n], "Metrics": {"UnblendedCost": {"Amount": a, "Unit": "USD"}}} for n, a in services.items()]
    return {"ResultsByTime": [{"TimePeriod": {"Start": "2026-11-29", "End": "2026-11-30"}, "Groups": groups}]}


def expected(start: str, end: str) -> dict[str, object]:
    return {
        "TimePeriod": {"Start": start, "End": end},
        "Granularity": "DAILY",
        "Metrics": ["UnblendedCost"],
        "Filter": {"Tags": {"Key": "Project", "Values": ["guided"]}},
        "GroupBy": [{"Type": "DIMENSION", "Key": "SERVICE"}],
    }


@pytest.fixture
def explorer():
    client = boto3.client("ce", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y")
    with Stubber(client) as stub:
        yield client, stub


def test_a_day_a_month_and_where_it_leads(explorer):
    client, stub = explorer
    stub.add_response(
        "get_cost_and_usage", answer(EC2="30.004", ElastiCache="2.5", S3="0.001"), expected("2026-11-20", "2026-11-21")
    )
    stub.add_response("get_cost_and_usage", answer(EC2="600"), expected("2026-11-01", "2026-11-21"))
    text = cost_report.report(client, "guided", date(2026, 11, 21), budget=2000)
    assert text.splitlines() == [
        "guided, 2026-11-20: 32.51 USD",
        "       30.00  EC2",
        "        2.50  ElastiCache",
        "month so far: 600.00 USD of 2000; at yesterday's pace 925 by its end",
    ]


def test_the_last_day_of_a_month_belongs_to_it(explorer):
    client, stub = explorer
    stub.add_response("get_cost_and_usage", answer(EC2="1"), expected("2026-11-30", "2026-12-01"))
    stub.add_response("get_cost_and_usage", answer(EC2="2100"), expected("2026-11-01", "2026-12-01"))
    text = cost_report.report(client, "guided", date(2026, 12, 1), budget=2000)
    assert "pace 2100 by its end" in text
    assert text.endswith("THIS IS OVER THE BUDGET")


def template():
    """The stack without what CloudFormation's tags (!Ref) mean."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("!", lambda _loader, _tag, node: node.value)
    return yaml.load((COST / "report.yaml").read_text(encoding="utf-8"), Loader)


def test_the_stack_is_what_cloudformation_takes():
    check("cfn-lint", COST / "report.yaml")


def test_the_function_runs_the_report_and_is_told_what_that_reads():
    function = template()["Resources"]["Function"]["Properties"]
    code = (COST / "cost_report.py").read_text(encoding="utf-8")
    assert function["Code"] == {"ZipFile": "Code"}
    assert function["Handler"] == "index.handler"
    assert callable(cost_report.handler)
    assert function["Environment"]["Variables"].keys() == set(re.findall(r'os\.environ\["(\w+)"\]', code))
    assert len(code.encode()) <= 4096, "CloudFormation takes no longer parameter"


def test_terraform_gives_the_stack_its_parameters():
    text = (ROOT / "deploy" / "terraform" / "modules" / "notify" / "main.tf").read_text(encoding="utf-8")
    given = re.search(r"  parameters = \{(.*?)\n  \}", text, re.S)
    assert given
    assert set(re.findall(r"^    (\w+) +=", given[1], re.M)) == template()["Parameters"].keys()
