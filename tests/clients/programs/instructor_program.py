"""Instructor: the first example of its documentation. Arguments: URL, model, mode. Prints the extracted object."""

import sys

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int
    occupation: str


url, model, mode = sys.argv[1:]
client = instructor.from_openai(
    OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0), mode=getattr(instructor.Mode, mode)
)
person = client.chat.completions.create(
    model=model,
    response_model=Person,
    messages=[{"role": "user", "content": "Extract: John is a 30-year-old software engineer"}],
    max_tokens=200,
    max_retries=0,
    temperature=0,
)
assert isinstance(person, Person)
print(person.model_dump_json())
