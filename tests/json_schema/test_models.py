"""Schemas of pydantic models, as callers send them."""

from __future__ import annotations

import json
from typing import Annotated, Literal, Optional

import pytest
from pydantic import BaseModel, Field, ValidationError


class Finding(BaseModel):
    cve_id: Annotated[str, Field(pattern=r"^CVE-\d{4}-\d{4,7}$")]
    severity: Literal["low", "medium", "high", "critical"]
    affected_ports: list[int]
    summary: Annotated[str, Field(max_length=12)]


class Place(BaseModel):
    location: str
    unit: Annotated[str, Field(pattern="^(celsius|fahrenheit)$")] = "celsius"
    height: Annotated[float, Field(gt=0, le=8848.86)] | None = None


class Trip(BaseModel):
    stops: Annotated[list[Place], Field(min_length=1, max_length=3)]
    leader: Optional[Person] = None  # noqa: UP045 (as callers write it)


class Person(BaseModel):
    name: str
    friends: list[Person] = []


FINDING = {"cve_id": "CVE-2024-12345", "severity": "high", "affected_ports": [22, 8080], "summary": "short"}
PLACE = {"location": "Zürich", "unit": "celsius", "height": 408.5}
TRIP = {"stops": [PLACE, {"location": "Bern"}], "leader": {"name": "Ada", "friends": [{"name": "Bo", "friends": []}]}}


@pytest.mark.parametrize(("model", "value"), [(Finding, FINDING), (Place, PLACE), (Trip, TRIP)])
def test_values_of_a_model_are_accepted_in_every_usual_spelling(accept, model, value):
    model.model_validate(value)
    assert accept(model.model_json_schema()).value(value)


@pytest.mark.parametrize(
    ("model", "value", "change"),
    [
        (Finding, FINDING, {"cve_id": "CVE-24-1"}),
        (Finding, FINDING, {"severity": "mild"}),
        (Finding, FINDING, {"affected_ports": [1.5]}),
        (Finding, FINDING, {"affected_ports": "22"}),
        (Finding, FINDING, {"summary": "more than twelve"}),
        (Place, PLACE, {"unit": "kelvin"}),
        (Place, PLACE, {"height": 0}),
        (Place, PLACE, {"height": 8848.87}),
        (Trip, TRIP, {"stops": []}),
        (Trip, TRIP, {"stops": [PLACE] * 4}),
        (Trip, TRIP, {"leader": {"friends": []}}),
    ],
)
def test_what_the_model_refuses_is_refused(accept, model, value, change):
    wrong = {**value, **change}
    with pytest.raises(ValidationError):
        model.model_validate(wrong, strict=True)
    assert not accept(model.model_json_schema()).value(wrong)


def test_missing_and_extra_properties(accept):
    schema = Finding.model_json_schema()
    without = {name: value for name, value in FINDING.items() if name != "severity"}
    assert not accept(schema).value(without)
    assert not accept(schema).value({**FINDING, "note": "x"})
    assert accept(schema, additional_properties="allow").value({**FINDING, "note": "x"})


def test_order_of_properties(accept):
    schema = Finding.model_json_schema()
    backwards = dict(reversed(FINDING.items()))
    assert not accept(schema).value(backwards)
    assert accept(schema, property_order="any").value(backwards)
    twice = json.dumps(FINDING)[:-1] + ', "severity": "low"}'
    assert not accept(schema, property_order="any").text(twice)
