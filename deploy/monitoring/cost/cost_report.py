"""In: AWS's cost explorer; out: one message a day with what the tagged resources cost. The code of a Lambda function, see report.yaml.

Environment: PROJECT (value of the tag Project), TOPIC_ARN, MONTHLY_BUDGET_USD.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from typing import Any

import boto3

TOP = 10


def costs(explorer: Any, project: str, start: date, end: date) -> dict[str, float]:
    """US dollars per AWS service from `start` to the day before `end`, dearest first."""
    answer = explorer.get_cost_and_usage(
        TimePeriod={"Start": start.isoformat(), "End": end.isoformat()},
        Granularity="DAILY",
        Metrics=["UnblendedCost"],
        Filter={"Tags": {"Key": "Project", "Values": [project]}},
        GroupBy=[{"Type": "DIMENSION", "Key": "SERVICE"}],
    )
    total: dict[str, float] = {}
    for day in answer["ResultsByTime"]:
        for group in day["Groups"]:
            service = group["Keys"][0]
            total[service] = total.get(service, 0.0) + float(group["Metrics"]["UnblendedCost"]["Amount"])
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def report(explorer: Any, project: str, today: date, budget: float) -> str:
    """Yesterday by service, the month so far, and where it leads at yesterday's pace."""
    yesterday = today - timedelta(days=1)
    day = costs(explorer, project, yesterday, today)
    month = sum(costs(explorer, project, yesterday.replace(day=1), today).values())
    days_in_month = ((yesterday.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)).day
    forecast = month + sum(day.values()) * (days_in_month - yesterday.day)
    lines = [f"{project}, {yesterday}: {sum(day.values()):.2f} USD"]
    lines += [f"  {amount:10.2f}  {service}" for service, amount in list(day.items())[:TOP] if amount >= 0.005]
    lines.append(f"month so far: {month:.2f} USD of {budget:.0f}; at yesterday's pace {forecast:.0f} by its end")
    if forecast > budget:
        lines.append("THIS IS OVER THE BUDGET")
    return "\n".join(lines)


def handler(_event: Any, _context: Any) -> None:
    project = os.environ["PROJECT"]
    explorer = boto3.client("ce", region_name="us-east-1")  # the one region that it has
    text = report(explorer, project, datetime.now(UTC).date(), float(os.environ["MONTHLY_BUDGET_USD"]))
    boto3.client("sns").publish(TopicArn=os.environ["TOPIC_ARN"], Subject=f"{project}: cost of yesterday", Message=text)
